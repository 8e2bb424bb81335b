"""The drifting viscosity nu(t), t in [0, 1], and its integral, which the reference solver needs in closed
form."""

import math
from dataclasses import dataclass

import numpy as np

SCHEDULES = ("geometric", "linear", "constant")


@dataclass(frozen=True)
class Viscosity:
    """nu(t) from nu0 at t = 0 to nu1 at t = 1; `constant` is nu1 throughout."""

    schedule: str
    """One of SCHEDULES."""
    nu0: float
    """nu(0); unused by `constant`."""
    nu1: float
    """nu(1)."""

    def __call__(self, t: np.ndarray) -> np.ndarray:
        """nu(t), elementwise."""
        if self.schedule == "geometric":
            return self.nu0 * np.exp(self._rate * t)
        if self.schedule == "linear":
            return self.nu0 + (self.nu1 - self.nu0) * t
        return np.full_like(t, self.nu1)

    def integral(self, start: float, end: float) -> float:
        """The integral of nu over [start, end]."""
        if self.schedule == "geometric" and self._rate != 0:
            growth = math.exp(self._rate * start) * math.expm1(self._rate * (end - start))
            return self.nu0 * growth / self._rate
        if self.schedule == "linear":
            return (end - start) * (self.nu0 + (self.nu1 - self.nu0) * (start + end) / 2)
        return self.nu1 * (end - start)

    @property
    def _rate(self) -> float:
        """d log nu / dt of the geometric schedule."""
        return math.log(self.nu1 / self.nu0)
