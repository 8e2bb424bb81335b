"""Tables of log-probabilities against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, rel_entr

from atlas_gym.experiments.theory import policies

logits = arrays(float, (3, 4), elements=st.floats(-30, 30))


@given(logits, logits, st.floats(0.05, 5.0))
def test_the_policy_is_the_brute_force_softmax(reference_logits, utilities, beta):
    reference = policies.normalised(reference_logits)
    found = np.exp(policies.tilted(reference, utilities, beta))
    for row in range(3):
        best = max(
            math.log(math.exp(r)) + u / beta for r, u in zip(reference[row], utilities[row], strict=True)
        )
        weights = [math.exp(r + u / beta - best) for r, u in zip(reference[row], utilities[row], strict=True)]
        np.testing.assert_allclose(found[row], np.array(weights) / sum(weights), atol=1e-12)


@given(arrays(float, (5, 3), elements=st.floats(-1e6, 1e6)))
def test_normalised_is_log_softmax(values):
    np.testing.assert_allclose(
        policies.normalised(values), log_softmax(values, axis=-1), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(policies.largest(values), values.max(-1))


@given(logits, st.floats(0.0, 0.9))
def test_the_floor_keeps_every_action_and_the_sum(values, floor):
    found = np.exp(policies.with_floor(policies.normalised(values), floor))
    assert (found >= floor / 4 * (1 - 1e-12)).all()
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(
        found, (1 - floor) * np.exp(policies.normalised(values)) + floor / 4, rtol=1e-9, atol=1e-300
    )


@given(logits, logits)
def test_kl_is_scipy_s(p, q):
    log_p, log_q = policies.normalised(p), policies.normalised(q)
    expected = rel_entr(np.exp(log_p), np.exp(log_q)).sum(-1)
    np.testing.assert_allclose(policies.kl(log_p, log_q), expected, atol=1e-10)


def test_excluded_actions():
    greedy = policies.greedy(np.array([[1.0, 3.0, 2.0], [2.0, 2.0, 0.0]]))
    np.testing.assert_array_equal(np.exp(greedy), [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_allclose(policies.kl(greedy, policies.uniform((2, 3))), np.log(3))
    assert (policies.kl(policies.uniform((2, 3)), greedy) == np.inf).all()
    np.testing.assert_array_equal(policies.tilted(greedy, np.array([9.0, 0.0, 9.0]), 0.1)[0], greedy[0])
    assert np.isfinite(policies.with_floor(greedy, 0.05)).all()


def test_a_probability_no_float_can_hold():
    """A compounding reference goes there; the table has to come back from it."""
    table = policies.normalised(np.array([[0.0, -5000.0]]))
    assert table[0, 1] == -5000.0
    back = policies.tilted(table, np.array([[0.0, 5000.0]]), 1.0)
    np.testing.assert_allclose(np.exp(back), [[0.5, 0.5]])


def test_expected_value():
    table = np.log(np.array([[0.25, 0.75]]))
    assert policies.expected(table, np.array([[4.0, 8.0]])).item() == pytest.approx(7.0)
