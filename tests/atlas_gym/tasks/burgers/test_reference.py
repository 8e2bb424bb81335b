"""The reference solution against the exact one (Cole-Hopf) and against itself at double resolution."""

import math

import numpy as np
import pytest

from atlas_gym.tasks.burgers import reference as module
from atlas_gym.tasks.burgers.params import SCHEDULES, Viscosity
from atlas_gym.tasks.burgers.reference import GRID_T, GRID_X, evaluate, reference, solve
from atlas_gym.tasks.burgers.scoring import relative_l2

NU0, NU1 = 0.1, 0.01 / math.pi


def cole_hopf(x: np.ndarray, t: float, nu: float) -> np.ndarray:
    """The exact solution at constant viscosity, by Gauss-Hermite quadrature (Basdevant et al. 1986, Eq.
    2.5)."""
    nodes, weights = np.polynomial.hermite.hermgauss(200)
    y = x[:, None] - np.sqrt(4.0 * nu * t) * nodes
    kernel = weights * np.exp(-(np.cos(np.pi * y) + 1.0) / (2.0 * np.pi * nu))
    return -(np.sin(np.pi * y) * kernel).sum(axis=1) / kernel.sum(axis=1)


@pytest.mark.parametrize("nu", [0.1, NU1])
def test_agrees_with_cole_hopf_at_constant_viscosity(nu):
    exact = np.array([-np.sin(np.pi * GRID_X), *(cole_hopf(GRID_X, t, nu) for t in GRID_T[1:])])
    assert relative_l2(reference(Viscosity("constant", NU0, nu)), exact) < 1e-6


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_agrees_with_itself_at_double_resolution(schedule):
    viscosity = Viscosity(schedule, NU0, NU1)
    fine = evaluate(solve(viscosity, 4096, steps=4096), 4096, GRID_X)
    assert relative_l2(reference(viscosity), fine) < 1e-6


def test_a_shock_beyond_the_resolution_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "_MOST_MODES", 1024)
    with pytest.raises(ValueError, match="raise nu1"):
        reference(Viscosity("constant", NU0, 1e-3))
