"""What wins under the paper's metric must lose to an honest loss under the default one."""

from dataclasses import replace

import pytest

from atlas_gym.tasks.burgers.task import BurgersTask
from tests.atlas_gym.tasks.burgers.strategies import PLAIN, program

TASK = BurgersTask(steps=300, replicas=1, n_residual=300, n_initial=50, n_boundary=50)
SQUARES = "torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)"
IDLE = {
    "a constant": "return 0.0 * residuals.mean()",
    "a scaled loss": f"return 1e-8 * ({SQUARES})",
    "a dropped term": "return torch.mean(residuals**2)",
    "all terms but one dropped": "return torch.mean(bc_err**2)",
    "an unbounded loss": "return -1e6 * torch.mean(residuals**2)",
}
"""Losses that are low and teach the network little or nothing."""
DRESSED_UP = {
    "zero in the last epoch": (
        f"return ({SQUARES}) * (extras['epoch'] < 299)",
        f"return (s := {SQUARES}) * (extras['epoch'] < 299) + s.detach() * (extras['epoch'] >= 299)",
    ),
    "counting down": (f"return {SQUARES} - 1e3 * extras['epoch']", f"return {SQUARES}"),
}
"""Losses that lie about their value, and what has the same gradients and does not: they deserve its score."""


@pytest.fixture(scope="module")
def honest(evaluator):
    return evaluator.evaluate(program(PLAIN), TASK)


@pytest.mark.parametrize(
    "body", [*IDLE.values(), *(lie for lie, _ in DRESSED_UP.values())], ids=[*IDLE, *DRESSED_UP]
)
def test_cheats_win_under_the_papers_metric(evaluator, honest, body):
    cheat = evaluator.evaluate(program(body), TASK)
    assert cheat.ok, cheat.detail
    assert cheat.metrics["nvl"] < 0.1 * honest.metrics["nvl"]


@pytest.mark.parametrize("body", IDLE.values(), ids=IDLE)
def test_idle_losses_lose_under_the_default(evaluator, honest, body):
    assert evaluator.evaluate(program(body), TASK).score < honest.score - 0.1


@pytest.mark.parametrize(("lie", "truth"), DRESSED_UP.values(), ids=DRESSED_UP)
def test_dressed_up_losses_gain_nothing_under_the_default(evaluator, lie, truth):
    told, meant = (evaluator.evaluate(program(body), TASK).score for body in (lie, truth))
    assert told == pytest.approx(meant, rel=1e-6)


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "-float('inf')"])
@pytest.mark.parametrize("metric", ["relative_l2", "residual", "nvl"])
def test_a_loss_that_is_not_finite_wins_under_no_metric(evaluator, value, metric):
    task = replace(TASK, metric=metric, steps=3)
    evaluation = evaluator.evaluate(program(f"return residuals.mean() + {value}"), task)
    assert (evaluation.status, evaluation.score) == ("error", None)


def test_the_residual_metric_does_not_fall_for_a_dropped_term(evaluator, honest):
    for body in ("return 0.0 * residuals.mean()", "return torch.mean(residuals**2)"):
        cheat = evaluator.evaluate(program(body), TASK)
        assert cheat.metrics["residual"] > honest.metrics["residual"]


def test_a_program_that_sends_its_own_gradient_gains_nothing_but_another_loss(evaluator, honest):
    """Patching torch changes what the worker says, not how the network is scored."""
    source = program(
        PLAIN,
        before="torch.autograd.grad = lambda loss, errors, **_: [torch.zeros_like(v) for v in errors]\n",
    )
    cheat = evaluator.evaluate(source, TASK)
    assert cheat.ok, cheat.detail
    assert cheat.score < honest.score - 0.1
