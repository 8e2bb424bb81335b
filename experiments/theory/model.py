"""The preference-based linear contextual bandit of section 2.3 (Eqs. 6-9), many seeds in one batch.

Round t shows a context x_t from a finite set; the learner draws two actions from its policy and sees which
is preferred, y ~ Bernoulli(σ(u_t(x, a) − u_t(x, a'))) with u_t(x, a) = ⟨θ_t, φ(x, a)⟩. All randomness of the
environment is drawn beforehand and per seed, so that

* every method meets the same contexts, the same parameter path and the same uniform draws (common random
  numbers: differences between methods are far less noisy than the methods), and
* a seed gives the same numbers whatever batch it is in.

Features and θ_0 depend on the seed alone, the rest on seed and horizon: the slope over horizons of one seed
then compares like with like.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from atlas_gym.seeding import stream
from experiments.theory.drift import Array, Drift, parameter_paths

FEATURE_BOUND = 1.0
"""φ_max of Assumption 1: every feature vector has unit norm."""


@dataclass(frozen=True)
class BanditSettings:
    """Size and drift of a bandit. Defaults are the study's."""

    horizon: int
    """Rounds T."""
    drift: Drift = field(default_factory=Drift)
    """How the parameter moves."""
    actions: int = 5
    """Number of actions, at least 2."""
    dimension: int = 5
    """Length of the feature vectors, at least 2 (a sphere to move on)."""
    contexts: int = 20
    """Number of different contexts; each is equally likely in every round."""
    parameter_norm: float = 2.0
    """‖θ_t‖, the θ_max of Assumption 1. 2 makes preferences up to σ(4) = 0.98 sure."""

    def __post_init__(self) -> None:
        if self.actions < 2 or self.dimension < 2 or self.contexts < 1 or self.horizon < 2:
            raise ValueError("a bandit needs 2 actions, 2 dimensions, 1 context and 2 rounds at least")


@dataclass(frozen=True)
class Bandit:
    """A batch of bandits, one per seed."""

    settings: BanditSettings
    """What they have in common."""
    seeds: tuple[int, ...]
    """One seed per bandit."""
    features: Array
    """φ(x, a), shape (seeds, contexts, actions, dimension), unit norm."""
    parameters: Array
    """θ_t, shape (seeds, horizon, dimension)."""
    contexts: npt.NDArray[np.int64]
    """Index of x_t, shape (seeds, horizon)."""
    action_draws: Array
    """Uniform draws that choose the two actions, shape (seeds, horizon, 2)."""
    label_draws: Array
    """Uniform draws that choose the label, shape (seeds, horizon)."""

    def utilities(self, start: int, stop: int) -> Array:
        """u_t(x, a) of Eq. 6 for rounds start ≤ t < stop, shape (seeds, rounds, contexts, actions)."""
        return utilities(self.features, self.parameters[:, start:stop])


def utilities(features: Array, parameters: Array) -> Array:
    """⟨θ, φ(x, a)⟩ for parameters (seeds, n, dimension): shape (seeds, n, contexts, actions)."""
    seeds, contexts, actions, dimension = features.shape
    flat = features.reshape(seeds, contexts * actions, dimension)
    return (parameters @ flat.transpose(0, 2, 1)).reshape(seeds, -1, contexts, actions)


def make_bandits(settings: BanditSettings, seeds: Sequence[int]) -> Bandit:
    """The bandits of these seeds."""
    parts = [_draw(settings, seed) for seed in seeds]
    features, starts, directions, contexts, actions, labels = (
        np.stack(part) for part in zip(*parts, strict=True)
    )
    return Bandit(
        settings,
        tuple(seeds),
        features,
        parameter_paths(settings.drift, starts, directions),
        contexts,
        actions,
        labels,
    )


def preference_probability(parameters: Array, differences: Array) -> Array:
    """Bradley-Terry (Eq. 7): probability that the first action wins, for φ-differences (…, dimension)."""
    return expit((parameters * differences).sum(-1))


def sample_actions(probabilities: Array, draws: Array) -> npt.NDArray[np.int64]:
    """Actions by inverse transform: probabilities (…, actions) and draws (…, n) give indices (…, n)."""
    cumulative = np.cumsum(probabilities, axis=-1)
    above = draws[..., :, None] > cumulative[..., None, :]
    return np.minimum(above.sum(-1), probabilities.shape[-1] - 1)  # a sum of 1 − 1e-16 must not overflow


def _draw(settings: BanditSettings, seed: int) -> tuple[np.ndarray, ...]:
    shape = (settings.contexts, settings.actions, settings.dimension)
    fixed = stream(seed, "regret", "bandit", *shape)
    features = _unit(fixed.standard_normal(shape)) * FEATURE_BOUND
    start = _unit(fixed.standard_normal(settings.dimension)) * settings.parameter_norm
    rounds = stream(seed, "regret", "rounds", settings.horizon, *shape)
    directions = rounds.standard_normal((settings.horizon, settings.dimension))
    contexts = rounds.integers(settings.contexts, size=settings.horizon)
    actions, labels = rounds.random((settings.horizon, 2)), rounds.random(settings.horizon)
    return features, start, directions, contexts, actions, labels


def _unit(vectors: Array) -> Array:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
