import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.tasks.bandit.instances import chord_angle, theta_paths
from atlas_gym.tasks.bandit.params import BanditParams


def paths(replicas=3, seed=0, **constants):
    params = BanditParams(**{"horizon": 60, "variation_budget": 6.0, **constants})
    return theta_paths(params, [np.random.default_rng([seed, r]) for r in range(replicas)])


def step_lengths(theta):
    return np.linalg.norm(np.diff(theta, axis=0), axis=-1)


@given(
    drift=st.sampled_from(["random_walk", "rotation"]),
    dimension=st.integers(2, 8),
    horizon=st.integers(10, 80),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32),
)
def test_every_step_spends_exactly_its_share_of_the_budget(drift, dimension, horizon, share, seed):
    budget = share * horizon
    theta = paths(drift=drift, dimension=dimension, horizon=horizon, variation_budget=budget, seed=seed)
    assert theta.shape == (horizon, 3, dimension)
    np.testing.assert_allclose(np.linalg.norm(theta, axis=-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(step_lengths(theta), budget / horizon, atol=1e-7)


def test_the_random_walk_is_symmetric_about_the_last_position():
    """Eq. 17 with tangent steps: E[θ_{t+1} | θ_t] = cos φ · θ_t. 4000 replicas, standard error 0.004."""
    theta = paths(replicas=4000, dimension=3, horizon=10, variation_budget=5.0)
    along = (theta[1] * theta[0]).sum(-1)
    np.testing.assert_allclose(along, np.cos(chord_angle(0.5)), atol=1e-12)
    across = theta[1] - along[:, None] * theta[0]
    assert np.abs(across.mean(axis=0)).max() < 0.03


def test_rotation_stays_on_one_great_circle():
    theta = paths(drift="rotation", dimension=5, replicas=1)[:, 0]
    assert np.linalg.svd(theta, compute_uv=False)[2] < 1e-10


@pytest.mark.parametrize(("budget", "expected"), [(6.0, 4), (1.0, 1), (0.0, 0)])
def test_jumps_have_the_asked_length_and_spend_the_budget(budget, expected):
    lengths = step_lengths(paths(drift="jumps", variation_budget=budget, jump_length=1.5))
    jumped = lengths > 1e-9
    assert (jumped.sum(axis=0) == expected).all()
    np.testing.assert_allclose(lengths[jumped], 1.5, atol=1e-9)


def test_without_drift_theta_stands_still():
    assert step_lengths(paths(drift="none")).max() == 0.0
