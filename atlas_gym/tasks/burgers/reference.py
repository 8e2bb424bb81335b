"""The reference solution: u_t + u u_x = nu(t) u_xx on [-1, 1] x [0, 1], u(x, 0) = -sin(pi x), u(+-1, t) = 0.

The solution is odd and 2-periodic, so the boundary values hold by themselves: a Fourier series on [-1, 1). Diffusion is
taken exactly by the integrating factor exp(-k^2 * integral of nu), advection by the classical Runge-Kutta method of
order four, products dealiased by the 2/3 rule. Modes are doubled until the spectrum's tail has decayed.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import fft

from atlas_gym.tasks.burgers.params import Viscosity

GRID_X = np.linspace(-1.0, 1.0, 201)
GRID_T = np.linspace(0.0, 1.0, 101)
for _axis in (GRID_X, GRID_T):
    _axis.setflags(write=False)

_FEWEST_MODES, _MOST_MODES = 1024, 8192
#: Largest amplitude allowed among the highest tenth of the modes, relative to the largest of all.
_TAIL = 1e-9


@lru_cache(maxsize=8)
def reference(viscosity: Viscosity) -> np.ndarray:
    """u on GRID_T x GRID_X, float64 of shape (101, 201), read-only; relative error below 1e-6.

    Raises ValueError if the shock is too sharp for the largest resolution.
    """
    modes = _FEWEST_MODES
    while modes <= _MOST_MODES:
        spectra = solve(viscosity, modes, steps=modes)
        kept = np.abs(spectra[:, : (modes // 2 + 1) * 2 // 3])
        if kept[:, -(kept.shape[1] // 10) :].max() / kept.max() <= _TAIL:
            field = evaluate(spectra, modes, GRID_X)
            field.setflags(write=False)
            return field
        modes *= 2
    raise ValueError(f"the solution for {viscosity} needs more than {_MOST_MODES} Fourier modes; raise nu1")


def solve(viscosity: Viscosity, modes: int, steps: int) -> np.ndarray:
    """Integrate in time and return the spectrum (`rfft` on `modes` points of [-1, 1)) at each time of GRID_T, with at
    least so many `steps` on [0, 1]; stable from about 0.8 * modes."""
    x = -1.0 + 2.0 * np.arange(modes) / modes
    spectrum = fft.rfft(-np.sin(np.pi * x))
    spectra = [spectrum]
    per_interval = -(-steps // (len(GRID_T) - 1))
    for start, end in pairwise(GRID_T):
        times = np.linspace(start, end, per_interval + 1)
        for t, t_next in pairwise(times):
            spectrum = _step(spectrum, viscosity, t, t_next, modes)
        spectra.append(spectrum)
    return np.array(spectra)


def evaluate(spectra: np.ndarray, modes: int, x: np.ndarray) -> np.ndarray:
    """The Fourier series at the points x: spectra (n, modes // 2 + 1) to values (n, len(x))."""
    weights = np.full(modes // 2 + 1, 2.0 / modes)
    weights[0] = 1.0 / modes
    waves = np.exp(1j * np.outer(np.pi * np.arange(modes // 2 + 1), x + 1.0))
    return np.real(np.einsum("tk,kx->tx", spectra * weights, waves))  # see `network.values`


def _step(spectrum: np.ndarray, viscosity: Viscosity, start: float, end: float, modes: int) -> np.ndarray:
    """One Runge-Kutta step of the equation for exp(k^2 * integral of nu) * spectrum."""
    k = np.pi * np.arange(modes // 2 + 1)
    dt, middle = end - start, (start + end) / 2
    first = np.exp(-(k**2) * viscosity.integral(start, middle))
    second = np.exp(-(k**2) * viscosity.integral(middle, end))

    def advection(spectrum: np.ndarray) -> np.ndarray:
        slope = fft.rfft(fft.irfft(spectrum, modes) ** 2) * (-0.5j * k)
        slope[len(k) * 2 // 3 :] = 0.0
        return slope

    k1 = advection(spectrum)
    k2 = advection(first * (spectrum + dt / 2 * k1))
    k3 = advection(first * spectrum + dt / 2 * k2)
    k4 = advection(second * (first * spectrum + dt * k3))
    return second * (first * (spectrum + dt / 6 * k1) + dt / 3 * (k2 + k3)) + dt / 6 * k4
