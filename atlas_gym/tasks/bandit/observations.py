"""What anybody can observe of a bandit by playing it at random: facts for a prompt, from no hidden state.

The rewards of random play are what a program would have been told. How well the last n of them predict the next
one says how noisy the rewards are and how fast θ moves, without naming either.
"""

import numpy as np

from atlas_gym.hidden_streams import hidden_stream
from atlas_gym.tasks.bandit.instances import draw_instances
from atlas_gym.tasks.bandit.params import BanditParams

WINDOWS = (5, 10, 20, 40, 80, 160)
"""Numbers of past steps that predictions are made from."""

_EVERY = 10
_RIDGE = 0.1


def observe(params: BanditParams, seed: int, split: str) -> tuple[str, ...]:
    """Facts about the task of a seed, one line each."""
    features, rewards = _random_play(params, seed, split)
    errors = (f"{window}: {prediction_error(features, rewards, window):.3f}" for window in WINDOWS)
    return (
        f"observed in random play: {params.arms} arms, {params.dimension} dimensions, {params.horizon} steps; "
        f"rewards have mean {rewards.mean():.2f} and standard deviation {rewards.std():.2f}",
        f"error of predicting a reward from the last n steps: {', '.join(errors)}",
    )


def prediction_error(features: np.ndarray, rewards: np.ndarray, window: int) -> float:
    """Root mean square error of one-step predictions by ridge regression on the last `window` steps.

    Args:
        features: (T, R, d), the contexts that were played.
        rewards: (T, R), what was told.
        window: Number of past steps, less than T.
    """
    squares = [
        (
            rewards[t]
            - np.einsum("rd,rd->r", features[t], _fit(features[t - window : t], rewards[t - window : t]))
        )
        ** 2
        for t in range(min(window, len(rewards) - 1), len(rewards), _EVERY)
    ]
    return float(np.sqrt(np.mean(squares)))


def _fit(features: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """(R, d), the ridge estimate of each replica."""
    gram = np.einsum("trd,tre->rde", features, features) + _RIDGE * np.eye(features.shape[-1])
    return np.linalg.solve(gram, np.einsum("trd,tr->rd", features, rewards)[..., None])[..., 0]


def _random_play(params: BanditParams, seed: int, split: str) -> tuple[np.ndarray, np.ndarray]:
    instances = draw_instances(params, seed, split)
    shape = instances.rewards.shape[:2]
    arms = hidden_stream("bandit", split, seed, "random play").integers(params.arms, size=shape)[..., None]
    rewards = np.take_along_axis(instances.rewards, arms, axis=-1)[..., 0]
    return np.take_along_axis(instances.contexts, arms[..., None], axis=2)[:, :, 0], rewards
