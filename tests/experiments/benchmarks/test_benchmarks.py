"""The benchmarks' own arithmetic; what they measure is for `make bench`."""

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from atlas_gym.agents.models.adapters import WEIGHTS
from atlas_gym.experiments.benchmarks import calls, gpu, scaling, tasks
from atlas_gym.experiments.benchmarks.dpo import make_pairs, print_differences
from atlas_gym.experiments.benchmarks.side_by_side import take_turns
from atlas_gym.tasks.answer import Answer
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import Layout, make_run


def test_without_a_gpu_the_reason_and_the_way_out_are_said(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "--device cpu" in capsys.readouterr().err


def test_time_on_a_cpu_is_cpu_time():
    assert gpu.seconds_of("cpu", lambda: None) < 0.1
    assert gpu.seconds_of("cpu", lambda: sum(range(10**6))) > 0.0


def test_pairs_share_prompts_and_differ():
    pairs = make_pairs(prompts=3, pairs=4)
    assert len(pairs) == 12
    assert [len({pair.prompt for pair in pairs[i : i + 4]}) for i in (0, 4, 8)] == [1, 1, 1]
    assert len({pair.chosen for pair in pairs[:4]}) == 4


def test_the_difference_of_adapters_is_relative_to_what_was_learned(tmp_path, capsys):
    a = {"x.lora_A.weight": torch.full((2, 2), 5.0), "x.lora_B.weight": torch.tensor([[3.0, 4.0]])}
    b = {**a, "x.lora_B.weight": torch.tensor([[3.0, 4.5]])}
    for name, tensors in (("packed", b), ("stock", a)):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / WEIGHTS)
    figures = {"packed": {"losses": [0.7, 0.6]}, "stock": {"losses": [0.7, 0.625]}}
    print_differences(figures, "stock", tmp_path)
    said = capsys.readouterr().out
    assert "at most 2.5e-02" in said
    assert "by 1.0e-01 of its norm" in said


@pytest.mark.slow
def test_the_gpu_benchmark_runs_on_a_cpu_in_small(capsys):
    assert gpu.main(["--device", "cpu", "--only", "burgers", "--networks", "2", "3"]) == 0
    said = capsys.readouterr().out
    assert "3 networks stacked" in said
    assert "compiled kernel" in said


def test_contenders_take_turns_and_the_first_round_is_left_out():
    asked = []
    contenders = {name: lambda name=name: asked.append(name) or float(len(asked)) for name in "ab"}
    found = take_turns(contenders, 2)
    assert "".join(asked) == "ababab"
    assert found.to_dict("list") == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_pools_are_compared_turn_by_turn():
    found = scaling.throughput(pd.DataFrame({"1 workers": [2.0, 4.0, 3.0], "2 workers": [3.0, 8.0, 3.0]}))
    assert found.loc["2 workers"].tolist() == ["3.0 (3.0 to 8.0)", "1.50 (1.00 to 2.00)"]
    assert found.loc["1 workers", "relative to the first"] == "1.00 (1.00 to 1.00)"


def test_where_the_time_went_is_the_runs_own_sums(tmp_path):
    folders = [make_run(tmp_path / f"run{seed}", Layout(seed=seed, rounds=4)) for seed in (1, 2)]
    found = scaling.spent(folders)
    assert list(found.index) == ["run1", "run2", "together"]
    with RunStore.open_readonly(folders[0]) as store:
        samples = sum(unit.get("samples", 0) for unit in store.round_summaries())
    assert found.loc["run1", "candidates"] == f"{samples:,}"
    shares = [float(found.loc["run1", name].rstrip("%")) for name in ("generating", "waiting", "tuning")]
    assert sum(shares) == pytest.approx(100, abs=1.5)


def test_runs_of_one_name_count_each_and_a_run_that_has_not_explored_does_not(tmp_path):
    folders = [make_run(tmp_path / study / "run", Layout(seed=1, rounds=4)) for study in "ab"]
    RunStore(tmp_path / "idle").close()
    found = scaling.spent([*folders, tmp_path / "idle"])
    assert list(found.index) == ["run", "run", "together"]
    one, _, both = found.improvements.astype(int)
    assert both == 2 * one
    assert scaling.spent([tmp_path / "idle"]).empty


def test_one_pool_is_measured(capsys):
    scaling.main(["workers", "--most", "1", "--batch", "1", "--repeats", "1"])
    assert "1 workers" in capsys.readouterr().out


def test_calls_are_measured(capsys):
    calls.main(["--calls", "100", "--repeats", "1"])
    said = capsys.readouterr().out
    assert all(case in said for case in calls.CASES)
    assert "round trip" in said


def test_every_call_that_is_counted_is_made():
    asked = []

    class Counting:
        def batch(self, many):
            asked.extend(many)
            return [Answer("answer", 1.5) for _ in many]

    calls.CallCost(calls=150, way="batched").score(Counting(), 0)
    assert len(asked) == 150


def test_tasks_are_measured_confined_and_bare(capsys):
    assert {"ATLAS-BinPacking-v0", "ATLAS-TSP-v0", "ATLAS-CirclePacking-v0"} == set(tasks.calling())
    tasks.main(["--repeats", "1", "--tasks", "ATLAS-BinPacking-v0"])
    assert "best_fit" in capsys.readouterr().out
