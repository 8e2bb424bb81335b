"""Paths of the parameter: norm, budget and shape of each kind of drift."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.experiments.theory.model import DRIFT_KINDS, Drift, parameter_paths, variation


def paths(drift, horizon=200, seeds=3, dimension=4, norm=2.0):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((seeds, dimension))
    start *= norm / np.linalg.norm(start, axis=-1, keepdims=True)
    return parameter_paths(drift, start, rng.standard_normal((seeds, horizon, dimension)))


@given(st.sampled_from(DRIFT_KINDS), st.floats(0.0, 30.0), st.integers(2, 60), st.integers(2, 6))
def test_the_norm_never_changes(kind, angle, horizon, dimension):
    path = paths(Drift(kind, angle=angle), horizon=horizon, dimension=dimension)
    np.testing.assert_allclose(np.linalg.norm(path, axis=-1), 2.0, rtol=1e-10)


@pytest.mark.parametrize("kind", ["walk", "rotation"])
def test_smooth_drift_spends_its_budget_evenly(kind):
    path = paths(Drift(kind, angle=3.0), horizon=301)
    steps = np.linalg.norm(np.diff(path, axis=1), axis=-1)
    np.testing.assert_allclose(steps, 4.0 * np.sin(3.0 / 300 / 2), rtol=1e-9)  # chord of a circle of radius 2
    np.testing.assert_allclose(variation(path), 6.0, rtol=1e-4)


def test_a_full_rotation_comes_back_and_half_of_one_is_opposite():
    path = paths(Drift("rotation", angle=2 * np.pi), horizon=201)
    np.testing.assert_allclose(path[:, -1], path[:, 0], atol=1e-9)
    np.testing.assert_allclose(path[:, 100], -path[:, 0], atol=1e-9)


def test_jumps_are_few_and_share_the_angle():
    path = paths(Drift("jumps", angle=4.0, jumps=8), horizon=400)
    steps = np.linalg.norm(np.diff(path, axis=1), axis=-1)
    assert ((steps > 1e-12).sum(1) == 8).all()
    np.testing.assert_allclose(steps.max(1), 4.0 * np.sin(0.25), rtol=1e-9)


def test_no_drift_stands_still():
    path = paths(Drift("none"))
    assert (path == path[:, :1]).all()


def test_a_budget_per_round_grows_with_the_horizon():
    drift = Drift("rotation", angle=0.025, per_round=True)
    short, long = (variation(paths(drift, horizon=T)).mean() / T for T in (100, 800))
    assert short == pytest.approx(long, rel=1e-6) == pytest.approx(0.05, rel=1e-3)


def test_a_walk_turns_somewhere_else_every_round():
    path = paths(Drift("walk", angle=20.0), horizon=100)
    steps = np.diff(path, axis=1)
    cosine = (steps[:, 1:] * steps[:, :-1]).sum(-1) / np.linalg.norm(steps[:, 1:], axis=-1) ** 2
    assert np.abs(cosine).mean() < 0.6  # a rotation has 1
