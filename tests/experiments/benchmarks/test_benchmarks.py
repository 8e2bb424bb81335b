"""The benchmarks' own arithmetic; what they measure is for `make bench`."""

import pytest
import torch
from safetensors.torch import save_file

from atlas_gym.agents.models.adapters import WEIGHTS
from atlas_gym.experiments.benchmarks import calls, gpu
from atlas_gym.experiments.benchmarks.dpo import make_pairs, print_differences
from atlas_gym.experiments.benchmarks.side_by_side import take_turns
from atlas_gym.tasks.answer import Answer


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
