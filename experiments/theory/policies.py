"""Policies as tables of log-probabilities, shape (…, contexts, actions).

Logarithms because a compounding reference without a floor goes to 1e-1000 and beyond, which no float holds
but its logarithm does. −inf (an action the policy can never take) is allowed everywhere.

The last axis is short (a handful of actions) and the others are long. numpy reduces along a short last axis
slowly, so the maximum goes action by action and sums go through einsum: three times faster for the same
numbers, and this is where the study spends its time.
"""

from functools import reduce

import numpy as np

from atlas_gym.experiments.theory.model import Array


def uniform(shape: tuple[int, ...]) -> Array:
    """The uniform policy; the last axis are the actions."""
    return np.full(shape, -np.log(shape[-1]))


def greedy(utilities: Array) -> Array:
    """The deterministic optimum of Eq. 10 (of equal actions the first)."""
    best = np.arange(utilities.shape[-1]) == utilities.argmax(-1)[..., None]
    return np.where(best, 0.0, -np.inf)


def largest(values: Array) -> Array:
    """Maximum over the last axis."""
    return reduce(np.maximum, (values[..., action] for action in range(values.shape[-1])))


def normalised(logits: Array) -> Array:
    """log softmax over the last axis."""
    shifted = logits - largest(logits)[..., None]
    return shifted - np.log(np.einsum("...a->...", np.exp(shifted)))[..., None]


def tilted(log_reference: Array, utilities: Array, beta: float) -> Array:
    """π ∝ π_ref exp(u/β): Eq. 11 with the true utilities, Eq. 12 with the estimated ones."""
    return normalised(log_reference + utilities / beta)


def with_floor(log_policy: Array, floor: float) -> Array:
    """(1 − floor) π + floor/A: every action keeps at least floor/A (Assumption 2). 0 changes nothing."""
    if floor == 0.0:
        return log_policy
    return np.logaddexp(np.log1p(-floor) + log_policy, np.log(floor) - np.log(log_policy.shape[-1]))


def kl(log_p: Array, log_q: Array) -> Array:
    """KL(p ‖ q) in nats over the last axis; actions with p = 0 count nothing."""
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):  # −inf − (−inf) where p = 0, replaced in the same line
        return np.where(p > 0.0, p * (log_p - log_q), 0.0).sum(-1)


def expected(log_policy: Array, values: Array) -> Array:
    """E_{a~π} values(a) over the last axis."""
    return np.einsum("...a,...a->...", np.exp(log_policy), values)
