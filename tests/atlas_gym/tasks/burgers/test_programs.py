"""The hand-written strategies: each runs as a candidate, and the formulas that can be checked are checked."""

from pathlib import Path

import numpy as np
import pytest
import torch

from atlas_gym.tasks.burgers import experts
from atlas_gym.tasks.burgers.task import BurgersTask

EXPERTS = experts.EXPERTS
SHORT = BurgersTask(steps=30, replicas=2, n_residual=200, seed=1)


def load(name):
    namespace = {}
    exec(EXPERTS[name].program, namespace)
    return namespace["pinn_loss_strategy"]


def call(strategy, epoch=0, scale=1.0):
    """The loss and the gradient with respect to the residuals of one made-up epoch."""
    residuals = (scale * torch.linspace(-1.0, 2.0, 40)).requires_grad_()
    ic_err, bc_err = torch.linspace(0.1, 0.4, 10), torch.linspace(-0.2, 0.1, 10)
    extras = {
        "epoch": epoch,
        "n_epochs": 500,
        "x": torch.linspace(-1, 1, 40),
        "t": torch.linspace(0, 1, 40),
        "nu": torch.full((40,), 0.01),
        "u": torch.zeros(40),
        "u_x": torch.linspace(-60.0, 5.0, 40),
    }
    loss = strategy(residuals, ic_err.requires_grad_(), bc_err.requires_grad_(), extras)
    return loss.item(), torch.autograd.grad(loss, residuals)[0]


def test_the_gallery_has_every_file_once():
    files = {path.stem for path in Path(experts.__file__).parent.glob("*.py")} - {"__init__"}
    assert sorted((*EXPERTS, *experts.CONTROLS)) == sorted(files)
    assert all(expert.title for expert in EXPERTS.values())


@pytest.mark.parametrize("name", EXPERTS)
def test_every_program_is_a_candidate_that_runs(evaluator, name):
    evaluation = evaluator.evaluate(EXPERTS[name].program, SHORT)
    assert evaluation.ok, evaluation.detail
    # One that learns nothing is as wrong as its first weights are, which differ between machines.
    assert evaluation.metrics["relative_l2"] < 2.0


def test_causal_weights_hold_late_times_back_until_early_ones_are_solved():
    strategy, plain = load("causal"), load("fixed_1_10_10")

    def late_to_early(scale):
        ratio = call(strategy, scale=scale)[1] / call(plain, scale=scale)[1]
        return (ratio[-1] / ratio[0]).item()

    assert late_to_early(1.0) < 0.01
    assert late_to_early(1e-3) == pytest.approx(1.0, rel=1e-3)


def test_attention_grows_where_residuals_stay_large():
    strategy = load("residual_attention")
    for epoch in range(50):
        _, gradient = call(strategy, epoch)
    attention = (gradient / torch.linspace(-1.0, 2.0, 40)).sqrt()
    assert attention[-1] > 1.9 * attention[0]


@pytest.mark.parametrize("name", ["softadapt", "relobralo"])
def test_balanced_weights_sum_to_three(name):
    strategy = load(name)
    for epoch in range(5):
        loss, gradient = call(strategy, epoch)
    weight = (gradient / (2 * torch.linspace(-1.0, 2.0, 40) / 40)).median().item()
    assert 0 < weight < 3
    assert np.isfinite(loss)


@pytest.mark.slow
def test_a_hand_written_strategy_beats_the_plain_loss_by_30_percent(evaluator):
    """Nine trainings each, with the margin beyond the 95 % interval of the paired difference."""
    task = BurgersTask(replicas=9)
    plain, best = (
        -evaluator.evaluate(EXPERTS[name].program, task).traces["scores"]
        for name in ("weighted", "growing_robust")
    )
    saved = 0.7 * plain - best
    assert saved.mean() > 2.306 * saved.std(ddof=1) / 3
