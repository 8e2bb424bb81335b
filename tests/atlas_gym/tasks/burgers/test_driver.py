"""The candidate's side, called directly: answers and the messages for honest mistakes."""

import numpy as np
import pytest
import torch

from atlas_gym.tasks.burgers.driver import answer
from tests.atlas_gym.tasks.burgers.strategies import uneven

SIZES = [5, 3, 2]
VECTORS = np.linspace(0.1, 1.9, 3 * 5 + 3 + 2)


def ask(strategy, vectors=VECTORS, **extras):
    constants = {name: torch.linspace(0.1, 0.9, 5, dtype=torch.float64) for name in ("x", "t", "nu")}
    return np.frombuffer(
        answer(strategy, bytearray(vectors), SIZES, {"epoch": 3, "n_epochs": 9, **constants})
    )


def test_the_answer_is_the_loss_and_its_gradient():
    reply = ask(lambda residuals, ic_err, bc_err, extras: (residuals**2).sum() + 3 * ic_err.sum() - bc_err[0])
    residuals, ic_err, bc_err = VECTORS[:5], VECTORS[5:8], VECTORS[8:10]
    assert reply[0] == pytest.approx((residuals**2).sum() + 3 * ic_err.sum() - bc_err[0])
    assert reply[1:] == pytest.approx([*(2 * residuals), 3, 3, 3, -1, 0])


def test_the_gradient_is_that_of_finite_differences():
    h = 1e-6
    gradient = ask(uneven)[1:]
    for i in range(10):
        up, down = VECTORS.copy(), VECTORS.copy()
        up[i] += h
        down[i] -= h
        assert gradient[i] == pytest.approx((ask(uneven, up)[0] - ask(uneven, down)[0]) / (2 * h), rel=1e-6)


def test_extras_are_complete_and_without_gradient():
    seen = {}

    def strategy(residuals, ic_err, bc_err, extras):
        seen.update(extras)
        return residuals.sum()

    ask(strategy)
    assert set(seen) == {"epoch", "n_epochs", "x", "t", "nu", "u", "u_x"}
    assert (seen["epoch"], seen["n_epochs"]) == (3, 9)
    assert seen["u"].tolist() == VECTORS[10:15].tolist()
    assert seen["u_x"].tolist() == VECTORS[15:].tolist()
    assert not any(seen[name].requires_grad for name in ("x", "t", "nu", "u", "u_x"))


@pytest.mark.parametrize(
    ("strategy", "kind", "message"),
    [
        (lambda r, i, b, e: None, TypeError, "return statement missing"),
        (lambda r, i, b, e: 1.0, TypeError, r"returned a float, not a tensor.*without \.item\(\)"),
        (lambda r, i, b, e: r**2, ValueError, r"shape \(5,\); reduce it to one number with \.mean\(\)"),
        (lambda r, i, b, e: (r > 0).sum(), TypeError, "torch.int64"),
        (lambda r, i, b, e: r.detach().mean(), ValueError, r"no gradient.*without \.detach\(\)"),
        (lambda r, i, b, e: torch.ones(1, requires_grad=True), ValueError, "does not depend on residuals"),
        (lambda r, i, b, e: r.mul_(2).sum(), RuntimeError, "in-place"),
        (
            lambda r, i, b, e: (
                i.detach_().set_(i.new_ones(len(i) + 1)).requires_grad_().sum()
                + r.detach_().set_(r.new_ones(len(r) - 1)).requires_grad_().sum()
            ),
            ValueError,
            "resized in place",
        ),
    ],
)
def test_mistakes_are_explained(strategy, kind, message):
    with pytest.raises(kind, match=f"(?s){message}"):
        ask(strategy)


@pytest.mark.parametrize("keep", [lambda tensor: tensor, torch.Tensor.detach])
def test_state_counts_as_constant_with_or_without_detach(keep):
    state = {"average": torch.zeros(())}

    def strategy(residuals, ic_err, bc_err, extras):
        state["average"] = 0.9 * keep(state["average"]) + (residuals**2).mean()
        return state["average"]

    ask(strategy)
    second = ask(strategy)
    assert second[0] == pytest.approx(1.9 * (VECTORS[:5] ** 2).mean())
    assert second[1:6] == pytest.approx(2 * VECTORS[:5] / 5)
