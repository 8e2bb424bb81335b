"""The bandit: what is drawn, and that a seed means the same in every batch."""

import numpy as np
import pytest

from atlas_gym.experiments.theory.model import (
    BanditSettings,
    Drift,
    make_bandits,
    preference_probability,
    sample_actions,
    utilities,
)


def test_shapes_and_unit_features():
    bandit = make_bandits(BanditSettings(horizon=30, actions=3, dimension=4, contexts=6), range(5))
    assert bandit.features.shape == (5, 6, 3, 4)
    assert bandit.parameters.shape == (5, 30, 4)
    assert bandit.contexts.shape == bandit.label_draws.shape == (5, 30)
    np.testing.assert_allclose(np.linalg.norm(bandit.features, axis=-1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(bandit.parameters, axis=-1), 2.0)


def test_a_seed_is_the_same_in_every_batch():
    settings = BanditSettings(horizon=25, drift=Drift("walk"))
    batch, alone = make_bandits(settings, [4, 7, 9]), make_bandits(settings, [7])
    for name in ("features", "parameters", "contexts", "action_draws", "label_draws"):
        np.testing.assert_array_equal(getattr(batch, name)[1], getattr(alone, name)[0])


def test_the_horizon_changes_the_rounds_but_not_the_bandit():
    short, long = (make_bandits(BanditSettings(horizon=T), [3]) for T in (50, 100))
    np.testing.assert_array_equal(short.features, long.features)
    np.testing.assert_array_equal(short.parameters[:, 0], long.parameters[:, 0])
    assert (short.label_draws != long.label_draws[:, :50]).any()


def test_utilities_are_inner_products():
    bandit = make_bandits(BanditSettings(horizon=5), range(2))
    found = bandit.utilities(1, 4)
    assert found.shape == (2, 3, 20, 5)
    expected = bandit.parameters[1, 2] @ bandit.features[1, 7, 4]
    assert found[1, 1, 7, 4] == pytest.approx(expected, abs=1e-14)
    np.testing.assert_allclose(
        found, np.einsum("std,scad->stca", bandit.parameters[:, 1:4], bandit.features), atol=1e-14
    )
    assert utilities(bandit.features, bandit.parameters[:, :1]).shape == (2, 1, 20, 5)


def test_bradley_terry_depends_on_the_difference_alone():
    theta, z = np.array([2.0, 0.0]), np.array([[0.5, 9.0], [-0.5, 9.0], [0.0, 1.0]])
    found = preference_probability(theta, z)
    np.testing.assert_allclose(found, [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0.5])


def test_sampled_actions_have_the_policy_s_frequencies():
    probabilities = np.array([0.5, 0.0, 0.2, 0.3])
    draws = np.random.default_rng(0).random(200_000)
    counts = np.bincount(sample_actions(probabilities, draws), minlength=4) / len(draws)
    np.testing.assert_allclose(counts, probabilities, atol=0.005)
    assert counts[1] == 0


def test_a_draw_above_a_rounded_sum_takes_the_last_action():
    probabilities = np.array([[0.1] * 10])
    assert np.cumsum(probabilities)[-1] < 1.0  # 0.9999999999999999
    assert sample_actions(probabilities, np.array([[np.nextafter(1.0, 0.0)]])).item() == 9
