"""The sliding-window estimator of appendix A (Eqs. 20-22), for all seeds at once.

θ̂_t minimises  Σ_s −[y_s log σ(z_sᵀθ) + (1 − y_s) log(1 − σ(z_sᵀθ))] + λ/2 ‖θ‖²  over the rounds s of the
window, with z_s = φ(x_s, a_s) − φ(x_s, a'_s). The objective is strictly convex; Newton steps with halving
find the minimum to rounding in a handful of iterations. There is no projection onto a ball.
"""

import numpy as np
from scipy.special import expit

from atlas_gym.experiments.theory.model import Array

MAX_ITERATIONS = 100
GRADIENT_TOLERANCE = 1e-9


class NotConverged(RuntimeError):
    """The Newton iteration did not reach the tolerance (never seen for a positive ridge)."""


def covariance(differences: Array) -> Array:
    """Σ z zᵀ over a window, shape (seeds, d, d). Eq. 20's V_t is this plus λI."""
    return differences.transpose(0, 2, 1) @ differences


def diversity(differences: Array) -> Array:
    """λ_min(Σ z zᵀ)/W, the c_0 of Assumption A.1 that a window offers, shape (seeds,)."""
    smallest = np.linalg.eigvalsh(covariance(differences))[:, 0]
    return np.maximum(smallest, 0.0) / differences.shape[1]


def fit_logistic(differences: Array, labels: Array, ridge: float, start: Array) -> Array:
    """θ̂ of Eq. 21, shape (seeds, dimension).

    `differences` (seeds, window, dimension) and `labels` (seeds, window) in {0, 1} are the window, `ridge`
    is λ > 0, `start` (seeds, dimension) the first guess (the previous estimate saves iterations).
    Raises NotConverged.
    """
    theta = start.copy()
    value = _objective(theta, differences, labels, ridge)
    for _ in range(MAX_ITERATIONS):
        gradient, hessian = _derivatives(theta, differences, labels, ridge)
        active = np.linalg.norm(gradient, axis=-1) > GRADIENT_TOLERANCE
        if not active.any():
            return theta
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0].astype(np.float64, copy=False)
        step[~active] = 0.0  # a finished seed stays put, so that its result does not depend on its batch
        theta, value = _descend(theta, value, step, (gradient * step).sum(-1), differences, labels, ridge)
    raise NotConverged(f"gradient still above {GRADIENT_TOLERANCE} after {MAX_ITERATIONS} Newton steps")


def _descend(
    theta: Array, value: Array, step: Array, decrement: Array, differences: Array, labels: Array, ridge: float
) -> tuple[Array, Array]:
    """One Newton step per seed, halved until the objective falls as Armijo's rule asks."""
    size = np.ones(len(theta))
    while True:
        trial = theta - size[:, None] * step
        trial_value = _objective(trial, differences, labels, ridge)
        # The last term forgives rounding: near the minimum the promised decrease is below it.
        short = trial_value > value - 1e-4 * size * decrement + 1e-10 * (1.0 + np.abs(value))
        if not short.any():
            return trial, trial_value
        size[short] /= 2


def _objective(theta: Array, differences: Array, labels: Array, ridge: float) -> Array:
    margins = (differences @ theta[..., None])[..., 0]
    losses = np.logaddexp(0.0, margins) - labels * margins
    return losses.sum(-1) + 0.5 * ridge * (theta**2).sum(-1)


def _derivatives(theta: Array, differences: Array, labels: Array, ridge: float) -> tuple[Array, Array]:
    probability = expit((differences @ theta[..., None])[..., 0])
    gradient = ((probability - labels)[:, None] @ differences)[:, 0] + ridge * theta
    weighted = differences * (probability * (1.0 - probability))[..., None]
    hessian = weighted.transpose(0, 2, 1) @ differences + ridge * np.eye(theta.shape[-1])
    return gradient, hessian
