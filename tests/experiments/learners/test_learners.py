"""Optimisers, Stable-Baselines3 and the leaderboard, on bandits that take milliseconds."""

import numpy as np
import pytest

from experiments.learners import leaderboard
from experiments.learners.confirm import relative_gap
from experiments.learners.objective import Objective, Setting

SETTING = Setting("ATLAS-Bandit-v0", "sw_linucb", {"horizon": 60, "replicas": 1}, tasks=2)


def test_an_evaluation_is_a_program_run_once_and_tasks_take_turns():
    with Objective(SETTING) as objective:
        first, second, again = (objective(np.zeros(3)) for _ in range(3))
        assert objective.evaluations == 3
        assert first == again != second
        assert objective.mean(np.zeros(3)) == pytest.approx((first + second) / 2)
        assert objective.evaluations == 5


@pytest.mark.parametrize("name", leaderboard.LEARNERS)
def test_every_learner_answers_within_the_box_and_the_same_for_the_same_seed(name):
    for package in ("cma", "optuna", "stable_baselines3"):
        pytest.importorskip(package)
    learn = leaderboard.LEARNERS[name]
    answers = [learn(SETTING, 64, seed) for seed in (1, 1, 2)]
    assert all(answer.shape == (3,) and (abs(answer) <= 1).all() for answer in answers)
    np.testing.assert_array_equal(answers[0], answers[1])
    assert (answers[0] != answers[2]).any()


@pytest.mark.parametrize("name", leaderboard.LEARNERS)
def test_no_learner_spends_more_than_its_budget(name, monkeypatch):
    from atlas_gym.wrappers import TemplateAction

    steps = []
    step = TemplateAction.step
    monkeypatch.setattr(TemplateAction, "step", lambda self, action: steps.append(1) or step(self, action))
    leaderboard.LEARNERS[name](SETTING, 67, 0)
    assert 28 <= len(steps) <= 67


@pytest.mark.parametrize("name", ["random search", "Optuna TPE", "CMA-ES"])
def test_a_budget_below_one_point_is_an_error_or_no_step(name):
    with pytest.raises(ValueError, match="budget"):
        leaderboard.LEARNERS[name](SETTING, 1, 0)


def test_the_gap_is_positive_for_a_worse_score():
    assert relative_gap([-0.23, -0.23], [-0.2, -0.2]) == pytest.approx(0.15)


def test_an_interrupted_leaderboard_runs_only_what_is_missing(tmp_path, monkeypatch):
    ran = []

    def fake(env_id, learner, budget, seed, held_out):
        ran.append(learner)
        values = (env_id, learner, budget, seed, -0.1 * len(ran), -0.2, 0.0, held_out, "")
        return dict(zip(leaderboard.COLUMNS, values, strict=True))

    monkeypatch.setattr(leaderboard, "run", fake)
    arguments = ["--env-ids", "ATLAS-Bandit-v0", "--output", str(tmp_path / "board"), "--learners"]
    leaderboard.main([*arguments, "random search"])
    assert ran == [leaderboard.START, "tuned_sw_linucb", "random search"]
    leaderboard.main([*arguments, "random search", "CMA-ES"])
    assert ran[3:] == ["CMA-ES"]
    page = (tmp_path / "board.md").read_text()
    assert page.index(leaderboard.START) < page.index("random search") < page.index("CMA-ES")
