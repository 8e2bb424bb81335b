"""Slopes and totals."""

import numpy as np
import pytest

from experiments.theory.learner import Learner
from experiments.theory.model import BanditSettings, make_bandits
from experiments.theory.runner import CURVE_POINTS, Cell, measure, slope
from experiments.theory.simulate import simulate


def cell(horizon, regret):
    zeros = np.zeros(len(regret))
    return Cell(horizon, 0.0, regret, zeros, zeros, 0.0, zeros, zeros, zeros, zeros, np.zeros(CURVE_POINTS))


def test_the_slope_of_a_power_law_is_its_exponent():
    constants = np.array([1.0, 3.0, 20.0])
    found = slope([cell(T, constants * T**0.6) for T in (500, 1000, 4000)])
    assert found.mean == pytest.approx(0.6)
    assert found.high - found.low == pytest.approx(0.0, abs=1e-9)


def test_measures_of_a_simulation():
    bandit = make_bandits(BanditSettings(horizon=300), range(3))
    trace = simulate(bandit, Learner())
    found = measure(trace)
    np.testing.assert_allclose(found.learning + found.bias, found.regret, atol=1e-9)
    assert found.decomposition_gap < 1e-12
    assert found.budget == pytest.approx(8 * np.pi, rel=1e-3)
    assert found.curve[-1] == pytest.approx(found.regret.mean())
    assert (np.diff(found.curve) >= 0).all()
    assert (found.acceptance == 1).all()
