"""A whole evaluation: in a confined worker, and equal to the same evaluation in this process."""

import re

import numpy as np
import pytest

from atlas_gym.evaluation import Status
from atlas_gym.tasks.burgers import experts
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.task import BurgersTask
from tests.atlas_gym.tasks.burgers.in_process import judge_in_process
from tests.atlas_gym.tasks.burgers.strategies import PLAIN, program

SHORT = BurgersParams(steps=25, replicas=2, n_residual=120, n_initial=20, n_boundary=21)
TASK = BurgersTask(**vars(SHORT), seed=5)
STATEFUL = program(
    "calls.append(extras['epoch'])\n"
    "assert calls in (list(range(len(calls))), [*range(25), 24])\n"
    "state['r'] = 0.9 * state.get('r', 1.0) + residuals.detach().abs()\n"
    "return torch.mean(state['r'] * residuals**2) + torch.mean(ic_err**2) + bc_err.abs().max()",
    before="calls = []\nstate = {}\n",
)


@pytest.mark.parametrize("source", [program(PLAIN), STATEFUL, experts.EXPERTS["relobralo"].program])
def test_confined_equals_in_process(evaluator, source):
    evaluation = evaluator.evaluate(source, TASK)
    judgement = judge_in_process(source, TASK)
    assert (evaluation.status, evaluation.detail) == (Status.OK, "")
    assert evaluation.score == pytest.approx(judgement.score, rel=1e-12)
    assert evaluation.metrics == pytest.approx(judgement.metrics, rel=1e-12)
    assert np.allclose(evaluation.traces["loss"], judgement.traces["loss"], rtol=1e-12, atol=0)


def test_programs_are_compared_on_common_random_numbers():
    (points, theta), (again, same) = TASK.beginning(0), TASK.beginning(0)
    assert np.array_equal(theta, same)
    assert np.array_equal(points.x, again.x)
    assert not np.array_equal(points.x, TASK.beginning(1)[0].x)
    assert not np.array_equal(points.x, TASK.held_out_points(0).x)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return residuals.mean() / 0.0", "the loss is .* at epoch 0"),
        (
            "return torch.mean(residuals**2) * (float('nan') if extras['epoch'] == 7 else 1.0)",
            "nan at epoch 7",
        ),
        ("return torch.sqrt(torch.sum(0.0 * residuals))", "gradient of the loss is not finite at epoch 0"),
        ("return (residuals * 1e200).pow(2).mean()", "the loss is inf at epoch 0"),
        ("return 1e307 * (residuals - residuals.detach()).sum()", "network is no longer finite at epoch 1"),
    ],
)
def test_what_is_not_finite_is_an_error_that_names_the_epoch(evaluator, body, message):
    evaluation = evaluator.evaluate(program(body), TASK)
    assert evaluation.status is Status.ERROR
    assert evaluation.score is None
    assert re.search(message, evaluation.detail), evaluation.detail
