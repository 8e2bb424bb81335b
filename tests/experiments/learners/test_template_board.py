"""Optimisers and Stable-Baselines3 on templates, and their board, on bandits that take milliseconds."""

import pytest

pytest.importorskip("cma", reason="needs the extra `optimisers`")
pytest.importorskip("optuna", reason="needs the extra `optimisers`")
pytest.importorskip("stable_baselines3", reason="needs the extra `sb3`")

from pathlib import Path

import numpy as np

from atlas_gym import make_task
from atlas_gym.wrappers.numeric import NumericProgram
from experiments.learners import template_board
from experiments.learners.objective import Objective, Setting
from experiments.learners.template_entries import LEARNERS, TEMPLATE_LEARNERS, read_atlas
from tests.experiments.report.synthetic import Layout, make_run

SETTING = Setting("ATLAS-Bandit-v0", "sw_linucb", {"horizon": 60, "replicas": 1}, tasks=2)


def test_an_evaluation_is_a_program_run_once_and_tasks_take_turns():
    with Objective(SETTING) as objective:
        first, second, again = (objective(np.zeros(3)) for _ in range(3))
        assert objective.evaluations == 3
        assert first == again != second
        assert objective.mean(np.zeros(3)) == pytest.approx((first + second) / 2)
        assert objective.evaluations == 5


@pytest.mark.parametrize("name", TEMPLATE_LEARNERS)
def test_every_learner_answers_within_the_box_and_the_same_for_the_same_seed(name):
    answers = [TEMPLATE_LEARNERS[name](SETTING, 32, seed).coordinates for seed in (1, 1, 2)]
    assert all(answer.shape == (3,) and (abs(answer) <= 1).all() for answer in answers)
    np.testing.assert_array_equal(answers[0], answers[1])
    assert (answers[0] != answers[2]).any()


@pytest.mark.parametrize("name", LEARNERS)
def test_no_learner_spends_more_than_its_budget_and_each_says_what_it_spent(name, monkeypatch):
    steps = []
    step = NumericProgram.step
    monkeypatch.setattr(NumericProgram, "step", lambda self, action: steps.append(1) or step(self, action))
    submission = LEARNERS[name](SETTING, 35, 0)
    assert 14 <= len(steps) == submission.evaluations <= 35


def test_the_choice_among_experts_is_learned_and_submits_one_of_them():
    submission = LEARNERS["SB3 PPO, expert choice"](SETTING, 64, 0)
    programs = {f"`{name}`": e.program for name, e in make_task("ATLAS-Bandit-v0").programs.items()}
    assert submission.program == programs[submission.what]


@pytest.mark.parametrize("name", ["random search", "Optuna TPE", "CMA-ES"])
def test_a_budget_below_one_point_is_an_error_or_no_step(name):
    with pytest.raises(ValueError, match="budget"):
        LEARNERS[name](SETTING, 1, 0)


def test_a_finished_run_is_a_row_and_an_unfinished_one_is_not(tmp_path):
    row = template_board.run_row(make_run(tmp_path / "run", Layout(seed=4)))
    found = read_atlas(tmp_path / "run")
    assert (row["env_id"], row["seed"], row["held_out"]) == ("ATLAS-Bandit-v0", 4, 4)
    assert row["score"] == pytest.approx(np.mean(found.scores))
    assert row["low"] < row["score"] < row["high"]
    with pytest.raises(ValueError, match="not finished"):
        read_atlas(make_run(tmp_path / "half", Layout(rounds=2), finished=False))


def test_an_interrupted_board_runs_only_what_is_missing(tmp_path, monkeypatch):
    ran = []

    def fake(env_id, learner, budget, seed, held_out):
        ran.append(learner)
        values = (env_id, learner, seed, budget, -0.1 * len(ran), -0.2, 0.0, held_out, "")
        return dict(zip(template_board.COLUMNS, values, strict=True))

    monkeypatch.setattr(template_board, "run", fake)
    arguments = ["--env-ids", "ATLAS-Bandit-v0", "--output", str(tmp_path / "board"), "--learners"]
    template_board.main([*arguments, "random search"])
    assert ran == [template_board.START, template_board.EXPERT, "random search"]
    template_board.main([*arguments, "random search", "CMA-ES"])
    assert ran[3:] == ["CMA-ES"]
    run = make_run(tmp_path / "run", Layout())
    for _ in range(2):
        template_board.main([*arguments, "--runs", str(run)])
    rows = template_board.read(tmp_path / "board.csv")
    assert len(rows) == 5
    assert rows[-1]["learner"].startswith("atlas run")
    page = (tmp_path / "board.md").read_text()
    assert page.index(template_board.START) < page.index("random search") < page.index("CMA-ES")


def test_the_committed_page_is_the_committed_table_of_real_runs():
    table = Path(__file__).parents[3] / "docs" / "learners" / "templates.csv"
    rows = template_board.read(table)
    assert table.with_suffix(".md").read_text(encoding="utf-8") == template_board.markdown(rows)
    assert len({(row["env_id"], row["learner"], row["seed"]) for row in rows}) == len(rows)
    assert all(float(row["low"]) < float(row["score"]) < float(row["high"]) < 0 for row in rows)
    bandit = {row["learner"] for row in rows if row["env_id"] == "ATLAS-Bandit-v0"}
    assert {template_board.START, template_board.EXPERT, *LEARNERS} <= bandit
    assert any(learner.startswith("atlas run") for learner in bandit)
