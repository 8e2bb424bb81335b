"""The hidden side of a bandit task: contexts, θ and rewards, drawn in advance.

They do not depend on what is played, so they are drawn once per process and shared by all programs: common random
numbers, which separate programs with a tenth of the seeds. Streams are labelled by split, seed, replica and purpose,
not by the constants (σ, V, …), so that presets are compared on the same draws too.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from atlas_gym.hidden_streams import hidden_stream
from atlas_gym.tasks.bandit.params import BanditParams


@dataclass(frozen=True)
class Instances:
    """A task's replicas, stacked; T steps, R replicas, K arms, d dimensions, float64."""

    contexts: np.ndarray  # (T, R, K, d)
    theta: np.ndarray  # (T, R, d), of length 1
    rewards: np.ndarray  # (T, R, K), what a program would be told for each arm

    @cached_property
    def means(self) -> np.ndarray:
        """(T, R, K), expected reward of each arm."""
        return np.einsum("trkd,trd->trk", self.contexts, self.theta)

    @cached_property
    def regret(self) -> np.ndarray:
        """(T, R, K), expected regret of each arm: what it falls short of the best."""
        return self.means.max(axis=-1, keepdims=True) - self.means

    @cached_property
    def uniform_regret(self) -> np.ndarray:
        """(T, R), expected regret of playing all arms with equal probability."""
        return self.regret.mean(axis=-1)

    @cached_property
    def informed_regret(self) -> np.ndarray:
        """(T, R), expected regret under full information: told θ_{t−1}, play the arm that is best for it.

        No program does better against a random walk, whose θ_t is distributed symmetrically around θ_{t−1}; one that
        foresees a rotation may. The first step is played uniformly.
        """
        predicted = np.einsum("trkd,trd->trk", self.contexts[1:], self.theta[:-1])
        arms = predicted.argmax(axis=-1)[..., None]
        informed = np.take_along_axis(self.regret[1:], arms, axis=-1)[..., 0]
        return np.concatenate([self.uniform_regret[:1], informed])


@lru_cache(maxsize=32)
def draw_instances(params: BanditParams, seed: int, split: str) -> Instances:
    """Draw the replicas of a task, or return those drawn before (about 2 MB at the default size)."""

    def streams(purpose: str) -> list[np.random.Generator]:
        return [hidden_stream("bandit", split, seed, replica, purpose) for replica in range(params.replicas)]

    shape = (params.horizon, params.arms, params.dimension)
    contexts = np.stack([rng.standard_normal(shape) for rng in streams("contexts")], axis=1)
    if params.contexts == "unit":
        contexts /= np.linalg.norm(contexts, axis=-1, keepdims=True)
    theta = theta_paths(params, streams("theta"))
    noise = np.stack([rng.standard_normal(shape[:2]) for rng in streams("noise")], axis=1)
    means = np.einsum("trkd,trd->trk", contexts, theta)
    return Instances(contexts, theta, means + params.noise * noise)


def chord_angle(chord: float) -> float:
    """Angle between two unit vectors whose difference has length `chord`, in [0, 2]."""
    return 2.0 * np.arcsin(chord / 2.0)


def theta_paths(params: BanditParams, rngs: list[np.random.Generator]) -> np.ndarray:
    """Draw θ_0 … θ_{T−1} for each generator: unit vectors, float64, (T, len(rngs), d).

    Eq. 17 is θ_{t+1} = (θ_t + δ_t) / ‖θ_t + δ_t‖. With δ_t tangent to the sphere at θ_t and of length tan φ, the step
    is the rotation θ_{t+1} = cos φ · θ_t + sin φ · v_t, v_t = δ_t/‖δ_t‖, and its length (the chord) is 2 sin(φ/2)
    whatever the direction. So φ = 2 asin(V / 2T) spends exactly V/T of the variation budget in every step.
    """
    starts, steps = (
        _unit(np.stack([rng.standard_normal(params.dimension) for rng in rngs])),
        params.horizon - 1,
    )
    if params.drift == "none":
        return np.broadcast_to(starts, (params.horizon, *starts.shape))
    angles = np.full((steps, 1), chord_angle(params.variation_budget / params.horizon))
    if params.drift == "jumps":  # 0 but for the jumps, whose times are drawn without replacement
        angles = np.zeros((steps, len(rngs)))
        jumps = min(round(params.variation_budget / params.jump_length), steps)
        for k, rng in enumerate(rngs):
            angles[rng.choice(steps, size=jumps, replace=False), k] = chord_angle(params.jump_length)
    # Of a Gaussian vector, the part tangent to the sphere has a uniformly random direction.
    count = 1 if params.drift == "rotation" else steps
    directions = np.stack([rng.standard_normal((count, params.dimension)) for rng in rngs], axis=1)
    if params.drift == "rotation":  # round the great circle through each start in its direction
        turned = np.concatenate([[[0.0]], np.cumsum(angles, axis=0)])[..., None]
        return np.cos(turned) * starts + np.sin(turned) * _tangent(directions[0], starts)
    path = np.empty((params.horizon, *starts.shape))
    path[0] = theta = starts
    cosines, sines = np.cos(angles)[..., None], np.sin(angles)[..., None]
    for t, direction in enumerate(directions):
        theta = _unit(cosines[t] * theta + sines[t] * _tangent(direction, theta))
        path[t + 1] = theta
    return path


def _tangent(vectors: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return _unit(vectors - (vectors * theta).sum(-1, keepdims=True) * theta)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.sqrt((vectors * vectors).sum(-1, keepdims=True))
