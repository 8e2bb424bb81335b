"""Slopes and totals."""

import numpy as np
import pandas as pd
import pytest

from atlas_gym.experiments.theory.learner import Learner
from atlas_gym.experiments.theory.model import BanditSettings, make_bandits
from atlas_gym.experiments.theory.runner import measure, slope
from atlas_gym.experiments.theory.simulate import simulate


def test_the_slope_of_a_power_law_is_its_exponent():
    constants = np.array([1.0, 3.0, 20.0])
    found = slope({T: pd.DataFrame({"regret": constants * T**0.6}) for T in (500, 1000, 4000)})
    assert found.mean == pytest.approx(0.6)
    assert found.high - found.low == pytest.approx(0.0, abs=1e-9)


def test_measures_of_a_simulation():
    bandit = make_bandits(BanditSettings(horizon=300), range(3))
    trace = simulate(bandit, Learner())
    found = measure(trace)
    np.testing.assert_allclose(found.learning + found.bias, found.regret, atol=1e-9)
    assert found.decomposition_gap.max() < 1e-12
    np.testing.assert_allclose(found.budget, 8 * np.pi, rtol=1e-3)
    curves = np.stack(found.curve)
    np.testing.assert_allclose(curves[:, -1], found.regret)
    assert (np.diff(curves) >= 0).all()
    assert (found.acceptance == 1).all()
