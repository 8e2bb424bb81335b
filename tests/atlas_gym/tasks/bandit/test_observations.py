"""Observations are what random play shows: the noise where nothing drifts, the drift where it does."""

import numpy as np

from atlas_gym import make_task
from atlas_gym.tasks.bandit.prompts import prediction_error


def game(steps, speed, noise, seed=0):
    rng = np.random.default_rng(seed)
    angle = speed * np.arange(steps)
    theta = np.stack([np.cos(angle), np.sin(angle)], axis=-1)[:, None]
    x = rng.standard_normal((steps, 1, 2))
    return x, (x * theta).sum(-1) + noise * rng.standard_normal((steps, 1))


def test_a_prediction_is_ridge_regression():
    x, y = game(30, 0.1, 0.1)
    window, squares = 6, []
    for t in range(window, 30, 10):
        past, told = x[t - window : t, 0], y[t - window : t, 0]
        theta = np.linalg.lstsq(
            np.vstack([past, np.sqrt(0.1) * np.eye(2)]), np.concatenate([told, np.zeros(2)]), rcond=None
        )[0]
        squares.append((y[t, 0] - x[t, 0] @ theta) ** 2)
    assert np.isclose(prediction_error(x, y, window), np.sqrt(np.mean(squares)))


def test_the_lines_are_the_same_every_time_and_name_no_hidden_constant():
    lines = make_task("ATLAS-Bandit-v0", seed=3, horizon=300).observations()
    assert lines == make_task("ATLAS-Bandit-v0", seed=3, horizon=300).observations()
    assert lines != make_task("ATLAS-Bandit-v0", seed=4, horizon=300).observations()
    assert make_task("ATLAS-TSP-v0", seed=3).observations() == ()
