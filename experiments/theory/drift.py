"""Paths of the bandit's parameter on a sphere: none, random walk, rotation, jumps.

Every path stays at one norm, so that drift changes *which* action is best and never how much there is to
win. A path is described by the angle it sweeps; its variation budget V_T = Σ‖θ_{t+1} − θ_t‖ (Eq. 8) is the
sum of the chords, norm · angle for small steps.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
DriftKind = Literal["none", "walk", "rotation", "jumps"]
DRIFT_KINDS: tuple[DriftKind, ...] = get_args(DriftKind)


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

    def __post_init__(self) -> None:
        if self.kind not in DRIFT_KINDS:
            raise ValueError(f"no drift is called {self.kind!r}; choose one of {', '.join(DRIFT_KINDS)}")
        if self.angle < 0 or self.jumps < 1:
            raise ValueError("the angle of a drift cannot be negative and jumps must be at least 1")

    def total_angle(self, horizon: int) -> float:
        """Angle swept over `horizon` rounds, radians."""
        return self.angle * horizon if self.per_round else self.angle


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
    total = drift.total_angle(horizon)
    if drift.kind in ("walk", "rotation") and horizon > 1:
        turns[1:] = total / (horizon - 1)
    elif drift.kind == "jumps":
        rounds = np.arange(1, drift.jumps + 1) * horizon // (drift.jumps + 1)
        np.add.at(turns, rounds, total / drift.jumps)
        turns[0] = 0.0
    return turns


def _tangent(point: Array, direction: Array) -> Array:
    """Unit vectors at right angles to `point`, in the plane of `point` and `direction`."""
    unit = point / np.linalg.norm(point, axis=-1, keepdims=True)
    tangent = direction - (direction * unit).sum(-1, keepdims=True) * unit
    return tangent / np.linalg.norm(tangent, axis=-1, keepdims=True)


def _turn(point: Array, direction: Array, angle: float) -> Array:
    norm = np.linalg.norm(point, axis=-1, keepdims=True)
    turned = np.cos(angle) * point + np.sin(angle) * norm * _tangent(point, direction)
    return turned * (norm / np.linalg.norm(turned, axis=-1, keepdims=True))  # no rounding drift of the norm


def _great_circle(start: Array, direction: Array, angles: Array) -> Array:
    norm = np.linalg.norm(start, axis=-1, keepdims=True)
    side = norm * _tangent(start, direction)
    return np.cos(angles)[None, :, None] * start[:, None] + np.sin(angles)[None, :, None] * side[:, None]
