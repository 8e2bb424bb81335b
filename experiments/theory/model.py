"""The preference-based linear contextual bandit of section 2.3 (Eqs. 6-9), and the drift of its parameter: many
seeds in one batch.

Round t shows a context x_t from a finite set; the learner draws two actions from its policy and sees which
is preferred, y ~ Bernoulli(σ(u_t(x, a) − u_t(x, a'))) with u_t(x, a) = ⟨θ_t, φ(x, a)⟩. All randomness of the
environment is drawn beforehand and per seed, so that

* every method meets the same contexts, the same parameter path and the same uniform draws (common random
  numbers: differences between methods are far less noisy than the methods), and
* a seed gives the same numbers whatever batch it is in.

Features and θ_0 depend on the seed alone, the rest on seed and horizon: the slope over horizons of one seed
then compares like with like.

The parameter stays on a sphere, so that drift changes *which* action is best and never how much there is to win. A
path is described by the angle it sweeps; its variation budget V_T = Σ‖θ_{t+1} − θ_t‖ (Eq. 8) is the sum of the
chords, norm · angle for small steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from atlas_gym.seeding import stream

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
DriftKind = Literal["none", "walk", "rotation", "jumps"]
DRIFT_KINDS: tuple[DriftKind, ...] = get_args(DriftKind)

FEATURE_BOUND = 1.0
"""φ_max of Assumption 1: every feature vector has unit norm."""


@dataclass(frozen=True)
class Drift:
    """How the parameter moves over a horizon."""

    kind: DriftKind = "rotation"
    """`walk`: a fresh tangent direction every round. `rotation`: one great circle. `jumps`: still, but for
    `jumps` sudden turns at equal distances, each in a fresh direction."""
    angle: float = 4 * np.pi
    """Angle swept over the whole horizon, radians (per round if `per_round`)."""
    per_round: bool = False
    """True makes the budget proportional to the horizon."""
    jumps: int = 8
    """Number of jumps; each turns by angle / jumps."""


@dataclass(frozen=True)
class BanditSettings:
    """Size and drift of a bandit. Defaults are the study's."""

    horizon: int
    """Rounds T."""
    drift: Drift = Drift()
    """How the parameter moves."""
    actions: int = 5
    """Number of actions, at least 2."""
    dimension: int = 5
    """Length of the feature vectors, at least 2 (a sphere to move on)."""
    contexts: int = 20
    """Number of different contexts; each is equally likely in every round."""
    parameter_norm: float = 2.0
    """‖θ_t‖, the θ_max of Assumption 1. 2 makes preferences up to σ(4) = 0.98 sure."""


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
    contexts: Indices
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
    stacked = [np.stack(part) for part in zip(*parts, strict=True)]
    features, starts, directions, contexts, actions, labels = stacked
    paths = parameter_paths(settings.drift, starts, directions)
    return Bandit(settings, tuple(seeds), features, paths, contexts, actions, labels)


def preference_probability(parameters: Array, differences: Array) -> Array:
    """Bradley-Terry (Eq. 7): probability that the first action wins, for φ-differences (…, dimension)."""
    return expit((parameters * differences).sum(-1))


def sample_actions(probabilities: Array, draws: Array) -> Indices:
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


def parameter_paths(drift: Drift, start: Array, directions: Array) -> Array:
    """Paths θ of shape (seeds, horizon, dimension).

    `start` (seeds, dimension) is θ_0, whose norm is kept. `directions` (seeds, horizon, dimension) are
    standard normal draws from which the directions of motion are taken.
    """
    angles = _turns(drift, directions.shape[1])
    if drift.kind == "rotation":
        return _great_circle(start, directions[:, 0], np.cumsum(angles))
    path = np.empty_like(directions)
    path[:, 0] = start
    for t in range(1, directions.shape[1]):
        path[:, t] = path[:, t - 1] if angles[t] == 0 else _turn(path[:, t - 1], directions[:, t], angles[t])
    return path


def variation(path: Array) -> Array:
    """V_T of Eq. 8, shape (seeds,)."""
    return np.linalg.norm(np.diff(path, axis=1), axis=-1).sum(axis=1)


def _turns(drift: Drift, horizon: int) -> Array:
    """Angle by which the parameter turns when round t begins; the first entry is 0."""
    turns = np.zeros(horizon)
    total = drift.angle * horizon if drift.per_round else drift.angle
    if drift.kind in ("walk", "rotation") and horizon > 1:
        turns[1:] = total / (horizon - 1)
    elif drift.kind == "jumps":
        rounds = np.arange(1, drift.jumps + 1) * horizon // (drift.jumps + 1)
        np.add.at(turns, rounds, total / drift.jumps)
        turns[0] = 0.0
    return turns


def _tangent(point: Array, direction: Array) -> Array:
    """Unit vectors at right angles to `point`, in the plane of `point` and `direction`."""
    unit = _unit(point)
    return _unit(direction - (direction * unit).sum(-1, keepdims=True) * unit)


def _turn(point: Array, direction: Array, angle: float) -> Array:
    norm = np.linalg.norm(point, axis=-1, keepdims=True)
    turned = np.cos(angle) * point + np.sin(angle) * norm * _tangent(point, direction)
    return turned * (norm / np.linalg.norm(turned, axis=-1, keepdims=True))  # no rounding drift of the norm


def _great_circle(start: Array, direction: Array, angles: Array) -> Array:
    norm = np.linalg.norm(start, axis=-1, keepdims=True)
    side = norm * _tangent(start, direction)
    return np.cos(angles)[None, :, None] * start[:, None] + np.sin(angles)[None, :, None] * side[:, None]
