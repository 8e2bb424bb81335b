"""A program that solves the equation itself: that it wins is known, and learners are not shown how."""

from dataclasses import replace

import pytest

from atlas_gym.evaluation import Limits
from atlas_gym.tasks.burgers import experts
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.task import BurgersTask
from tests.atlas_gym.tasks.burgers.in_process import judge_in_process

CONTROL = experts.CONTROLS["knows_the_answer"].program
PATIENT = Limits(wall_s=600.0, cpu_s=120.0, memory_mb=1024)
SHORT = BurgersTask(steps=64, replicas=1, n_residual=100, n_initial=20, n_boundary=20, seed=1, limits=PATIENT)


def test_it_runs_through_warm_up_and_held_out_points():
    assert judge_in_process(CONTROL, SHORT).score > -2.0


@pytest.mark.slow
def test_it_beats_the_plain_loss(evaluator):
    """If this fails, the control has become worse or the door is closed: docs/burgers.md says it is open."""
    task = replace(SHORT, **vars(BurgersParams()))
    expert = evaluator.evaluate(experts.EXPERTS["weighted"].program, task)
    control = evaluator.evaluate(CONTROL, task)
    assert control.ok, control.detail
    assert control.score > expert.score


def test_learners_are_not_shown_it():
    assert "knows_the_answer" not in BurgersTask.programs
    assert CONTROL not in BurgersTask().starts.values()
