"""The shipped configurations load, and a dry run says what they would do without doing any of it."""

import dataclasses
from pathlib import Path

import pytest

from agents.models import loading
from experiments.cli import run
from experiments.cli.estimate import estimate
from experiments.cli.rates import gpus_for, parameters_of
from experiments.cli.workload import count
from trainers.loop.config import load_config
from trainers.store.plain import SettingsError

CONFIGS = sorted((Path(run.__file__).parents[1] / "configs").glob("*.yaml"))


def planned(name, **changes):
    config = load_config(Path(run.__file__).parents[1] / "configs" / f"{name}.yaml", changes)
    work = count(config)
    return config, work, estimate(config, work)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_dry_run_prints_the_plan_and_does_nothing(path, tmp_path, monkeypatch, capsys):
    def touched(*args, **kwargs):
        raise AssertionError("a dry run looks for no model")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "resolve_model", touched)
    assert run.main(["--config", str(path), "--dry-run"]) == 0
    said = capsys.readouterr().out
    config = load_config(path, {})
    expected = [config.model, config.env, "evaluations", "from beginning to end", "Assumptions"]
    assert not [text for text in expected if text not in said]
    assert ("GPU hours" in said) == (config.device == "cuda" or "llm" in said)
    assert "not known" not in said
    assert not list(tmp_path.iterdir())


def test_what_is_counted_is_what_the_configuration_decides():
    config, work, _ = planned("default")
    assert work.exploration.completions == 24 * 6 * 8
    assert work.exploration.prompts == 24 * 6
    assert work.phases == config.phases == 2
    assert work.steps == 16
    # Three policies answer 4 prompts 8 times; the probe asks every hole 10 times, before and after.
    assert (work.measuring.completions // 2 - 3 * 4 * 8) % 20 == 0
    # The main job's own figures: 9570 tokens drawn, 57 thousand read, 38 thousand trained.
    assert work.exploration.drawn == pytest.approx(9570, rel=0.01)
    assert work.exploration.read == pytest.approx(57_100, rel=0.15)
    assert work.trained == pytest.approx(38_200, rel=0.2)


def test_work_grows_with_what_asks_for_it():
    _, once, cost = planned("default")
    _, twice, cost_twice = planned("default", rounds=48)
    assert twice.exploration.drawn == pytest.approx(2 * once.exploration.drawn, rel=1e-3)
    _, probed, _ = planned("default", probe={"prompts": 100, "samples": 16})
    assert probed.measuring.completions == 2 * (3 * 4 * 8 + 2 * 100 * 16)
    assert cost_twice.exploring == pytest.approx(2 * cost.exploring, rel=1e-3)
    _, search, searching = planned("default", method="search")
    assert (search.phases, search.trained, searching.tuning) == (0, 0, 0.0)


def test_supporters_cost_time_and_machines_only_behind_endpoints():
    _, rules, cost = planned("default")
    assert cost.consulting == cost.server_gpus == 0
    assert {role.tokens for role in rules.consultations} == {0}
    _, paper, paper_cost = planned("paper")
    assert [role.calls for role in paper.consultations] == [3000, 24, 24]
    assert paper_cost.server_gpus == 6
    assert paper_cost.gpu_hours == pytest.approx(7 * paper_cost.wall / 3600)


def test_processes_share_the_tuning():
    eight, work, cost = planned("eight_gpu")
    alone = dataclasses.replace(eight, launch=dataclasses.replace(eight.launch, processes=1))
    assert cost.gpus == 8
    assert 4 * cost.tuning < estimate(alone, work).tuning < 8 * cost.tuning


def test_a_model_of_unknown_size_has_no_estimate():
    _, _, cost = planned("one_gpu", model="somebody/something")
    assert cost.exploring is cost.wall is cost.gpu_hours is None
    assert parameters_of("Qwen/Qwen3-4B-Instruct") == 4e9
    assert gpus_for("somebody/model-70B") == 4


def test_files_are_laid_on_one_another(tmp_path):
    (tmp_path / "base.yaml").write_text("rounds: 5\nphase: {beta: 0.3}\n")
    (tmp_path / "top.yaml").write_text("based_on: base.yaml\nphase: {epochs: 2}\n")
    config = load_config(tmp_path / "top.yaml", {"seed": 7})
    assert (config.rounds, config.phase.beta, config.phase.epochs, config.seed) == (5, 0.3, 2, 7)
    (tmp_path / "lost.yaml").write_text("based_on: nowhere.yaml\n")
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "lost.yaml", {})
