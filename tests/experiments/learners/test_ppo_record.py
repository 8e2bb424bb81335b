"""PPO through a template against the tuned SW-LinUCB: the recorded run, and the same again in small."""

import csv
import json
from pathlib import Path

import pytest

from atlas_gym import make_task
from atlas_gym.experiments.learners.ledger import confirm
from atlas_gym.experiments.learners.ppo_template import main

RECORD = Path(__file__).parents[3] / "docs" / "learners" / "ppo_bandit"
GOAL = 0.15


def read(record):
    with record.with_suffix(".csv").open(encoding="utf-8") as file:
        return json.loads(record.with_suffix(".json").read_text(encoding="utf-8")), list(csv.DictReader(file))


def test_the_recorded_run_reaches_the_goal_and_every_program_ran():
    result, rows = read(RECORD)
    assert result["worse_by"] < GOAL
    assert [int(row["evaluation"]) for row in rows] == list(range(1, result["evaluations"] + 1))
    assert {row["status"] for row in rows} == {"ok"}
    first, last = ([float(row["score"]) for row in part] for part in (rows[:200], rows[-200:]))
    assert sum(last) > sum(first)


def test_the_recorded_parameters_score_so_here_too():
    result, _ = read(RECORD)
    task = make_task("ATLAS-Bandit-v0")
    template = task.template("sw_linucb")
    program = template.fill(**result["parameters"])
    here, expert = (
        sum(confirm("ATLAS-Bandit-v0", text, 4))
        for text in (program, task.programs["tuned_sw_linucb"].program)
    )
    assert here / expert - 1.0 < GOAL


def test_without_a_record_what_came_of_it_is_only_printed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("stable_baselines3", reason="needs the extra `sb3`")
    monkeypatch.chdir(tmp_path)
    main(["horizon=60", "replicas=1", "--budget", "8", "--held-out", "1"])
    assert json.loads(capsys.readouterr().out)["algorithm"] == "PPO"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_smaller_run_reaches_it_again(tmp_path):
    pytest.importorskip("stable_baselines3", reason="needs the extra `sb3`")
    options = ["horizon=500", "replicas=2", "--budget", "1024", "--seed", "1", "--held-out", "4"]
    main([*options, "--record", str(tmp_path / "ppo")])
    result, rows = read(tmp_path / "ppo")
    assert len(rows) == 1024
    assert {row["status"] for row in rows} == {"ok"}
    assert result["worse_by"] < GOAL


def test_an_expert_that_is_none_is_met_before_the_training(monkeypatch):
    monkeypatch.setattr(
        "atlas_gym.experiments.learners.ppo_template.train", lambda *_: pytest.fail("trained")
    )
    with pytest.raises(SystemExit, match="no expert tuned_sw_linucb; --expert is one of start"):
        main(["--env-id", "ATLAS-TSP-v0", "--budget", "16", "--held-out", "1"])
