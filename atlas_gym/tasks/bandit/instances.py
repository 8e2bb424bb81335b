"""The hidden side of a bandit task: every context, every expected and every noisy reward, drawn in advance.

Contexts and rewards do not depend on what is played, so a task's randomness is drawn once per process and
shared by all programs: common random numbers, which separate programs with a tenth of the seeds. Streams are
labelled by split, seed, replica and purpose under the secret of `atlas_gym.hidden_streams`; labels of two splits
differ, so the splits cannot overlap, and the constants (σ, V, …) are no label, so that presets are compared
on the same draws too.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from atlas_gym.hidden_streams import hidden_stream
from atlas_gym.tasks.bandit.drift import theta_paths
from atlas_gym.tasks.bandit.params import BanditParams

DISPLACEMENT_LAG = 50
"""Steps over which pictures show the drift."""


@dataclass(frozen=True)
class Instances:
    """A task's replicas, stacked; T steps, R replicas, K arms, d dimensions, float64."""

    contexts: np.ndarray
    """(T, R, K, d)."""
    theta: np.ndarray
    """(T, R, d), of length 1."""
    rewards: np.ndarray
    """(T, R, K), what a program would be told for each arm."""

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

        No program does better against a random walk, whose θ_t is distributed symmetrically around θ_{t−1};
        a program that foresees a rotation may. In the first step there is nothing to be told and play is
        uniform.
        """
        predicted = np.einsum("trkd,trd->trk", self.contexts[1:], self.theta[:-1])
        arms = predicted.argmax(axis=-1)[..., None]
        informed = np.take_along_axis(self.regret[1:], arms, axis=-1)[..., 0]
        return np.concatenate([self.uniform_regret[:1], informed])

    @cached_property
    def displacement(self) -> np.ndarray:
        """(T,), distance of θ from where it was DISPLACEMENT_LAG steps before, mean over replicas."""
        before = np.maximum(np.arange(len(self.theta)) - DISPLACEMENT_LAG, 0)
        return np.linalg.norm(self.theta - self.theta[before], axis=-1).mean(axis=-1)


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
