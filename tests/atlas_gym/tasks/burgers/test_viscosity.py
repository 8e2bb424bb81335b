import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from atlas_gym.tasks.burgers.params import SCHEDULES, Viscosity

positive = st.floats(1e-4, 1.0)
times = st.floats(0.0, 1.0)


@given(st.sampled_from(SCHEDULES), positive, positive, times, times)
def test_the_integral_is_that_of_the_viscosity(schedule, nu0, nu1, start, end):
    viscosity = Viscosity(schedule, nu0, nu1)
    numeric, _ = quad(lambda t: float(viscosity(np.array([t]))[0]), start, end)
    assert viscosity.integral(start, end) == pytest.approx(numeric, rel=1e-9, abs=1e-14)
