"""Appendix A: no violation under the assumptions, and violations where one is broken."""

import numpy as np
import pytest

from atlas_gym.experiments.theory import inequalities
from atlas_gym.experiments.theory.inequalities import PathChecks, merged, switches_and_margin, violated
from atlas_gym.experiments.theory.lemma_study import (
    BATCH,
    broken_assumptions,
    floor_prices,
    margins_along,
    random_batch,
)
from atlas_gym.experiments.theory.model import BanditSettings, Drift, make_bandits

INEQUALITIES = {
    "A.3 switching",
    "A.4 local distance",
    "A.4 summed variation",
    "A.5 noise",
    "A.6 error, realised noise",
    "A.6 error, A.5's noise",
    "A.7 divergence",
    "Eq. 15 learning step",
    "Eq. 16 bias step",
    "Eq. 16 bias, summed",
}


def test_hundreds_of_random_instances_violate_nothing():
    batches = 300 // BATCH
    tally = merged(random_batch(number) for number in range(batches))
    assert tally.violations.to_dict() == dict.fromkeys(INEQUALITIES, 0)
    assert (tally.checked >= batches * BATCH).all()


def test_each_inequality_goes_when_its_assumption_is_broken():
    rows = broken_assumptions(10)
    assert {row["inequality"] for row in rows} == INEQUALITIES - {
        "A.6 error, A.5's noise",
        "Eq. 15 learning step",
    }
    assert all(row["violations"] >= 4 for row in rows), rows


def test_a_slow_rotation_has_no_margin_and_jumps_have_one():
    slow, fast = margins_along(5, (2000,))
    for row in (slow, fast):
        assert row["switches"] > 1
        assert row["margin"] <= 2 * row["step"]  # a switch needs a step of γ/(2 φ_max)
    assert slow["margin"] < 1e-3
    assert slow["bound"] > 1000 * slow["switches"]


def test_switches_are_counted_across_chunks():
    bandit = make_bandits(BanditSettings(horizon=1203, drift=Drift("rotation")), range(2))
    switches, margin = switches_and_margin(bandit)
    values = bandit.utilities(0, 1203)
    np.testing.assert_array_equal(switches, (np.diff(values.argmax(-1), axis=1) != 0).sum(1))
    ordered = np.sort(values, axis=-1)
    np.testing.assert_array_equal(margin, (ordered[..., -1] - ordered[..., -2]).min((1, 2)))


def test_local_variations():
    path = np.array([[[0.0], [1.0], [1.0], [3.0], [2.0]]])
    np.testing.assert_array_equal(inequalities.local_variations(path, 2), [[0, 1, 1, 2, 3]])
    np.testing.assert_array_equal(inequalities.local_variations(path, 9), [[0, 1, 1, 3, 4]])


def test_the_noise_is_zero_where_labels_are_their_expectation():
    z, theta = np.ones((1, 4, 2)), np.ones((1, 4, 2))
    expected = np.full((1, 4), 1 / (1 + np.exp(-2)))
    np.testing.assert_allclose(inequalities.noise_sum(z, expected, theta), 0, atol=1e-15)
    np.testing.assert_allclose(inequalities.noise_sum(z, expected + 0.25, theta), 1.0)


def test_curvature_is_the_smallest_slope_on_the_segment():
    z = np.array([[[1.0, 0.0], [0.0, 3.0]]])
    found = inequalities.curvature(z, np.array([[0.5, -1.0]]), np.array([[2.0, 0.1]]))
    grid = [
        z[0] @ ((1 - w) * np.array([0.5, -1.0]) + w * np.array([2.0, 0.1])) for w in np.linspace(0, 1, 201)
    ]
    slopes = 1 / (1 + np.exp(-np.array(grid))) * (1 / (1 + np.exp(np.array(grid))))
    assert found.item() == pytest.approx(slopes.min())


def test_a_tally_counts_and_sees_through_rounding():
    checks = PathChecks()
    checks.add("x", (np.array([1.0, 2.0 + 1e-12, 5.0]), np.array([2.0, 2.0, 4.0])))
    assert checks.tally.loc["x"].tolist() == [3, 1, 1.25]
    checks.add("x", (np.array([0.3, 1.0]), np.array([1.0, 0.0])))
    assert checks.tally.loc["x"].tolist() == [5, 2, 1.25]
    assert violated((np.array([0.0, np.nan]), np.array([0.0, 1.0]))).tolist() == [False, True]


def test_a_path_that_breaks_a_lemma_is_counted():
    checks = PathChecks()
    checks.add("A.7 divergence", inequalities.divergence(np.array([[0.1, 9.0]]), np.array([1.0]), 1.0))
    assert checks.tally.violations["A.7 divergence"] == 1


def test_a_floor_costs_in_proportion():
    prices = {price["floor"]: price for price in floor_prices(4) if price["beta"] == 1.0}
    assert prices[0.02]["regret"] / prices[0.01]["regret"] == pytest.approx(2.0, rel=0.05)
    assert 0 < prices[0.05]["share"] < 0.1
