"""The constants of the Burgers task."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

import numpy as np

SCHEDULES = ("geometric", "linear", "constant")
METRICS = ("relative_l2", "residual", "nvl")

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {"metric": "nvl"},
    "constant": {"schedule": "constant"},
    "linear": {"schedule": "linear"},
}
"""Named sets of constants; of the paper's, only the metric is known."""

HEADER = struct.Struct("<6I")
"""First message to the driver: replicas, collocation, initial and boundary points, epochs, seed of the global random
generators."""
LOADED = b"\1"
"""The driver's answer, once the program is loaded in every replica."""


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
        if self.schedule == "geometric":
            return self.nu0 * np.exp(self._rate * t)
        if self.schedule == "linear":
            return self.nu0 + (self.nu1 - self.nu0) * t
        return np.full_like(t, self.nu1)

    def integral(self, start: float, end: float) -> float:
        if self.schedule == "geometric" and self._rate != 0:
            growth = math.exp(self._rate * start) * math.expm1(self._rate * (end - start))
            return self.nu0 * growth / self._rate
        if self.schedule == "linear":
            return (end - start) * (self.nu0 + (self.nu1 - self.nu0) * (start + end) / 2)
        return self.nu1 * (end - start)

    @property
    def _rate(self) -> float:
        return math.log(self.nu1 / self.nu0)


@dataclass(frozen=True)
class BurgersParams:
    """What is solved, by which network, trained how, and scored by what."""

    schedule: str = "geometric"
    """Viscosity over t in [0, 1]: `geometric` or `linear` from nu0 to nu1, or `constant` (nu1)."""
    nu0: float = 0.1
    """Viscosity at t = 0 (> 0). Not given by the paper; 0.1 is smooth."""
    nu1: float = 0.01 / math.pi
    """Viscosity at t = 1 (> 0); 0.01/pi is the classical benchmark, and sharpens into a shock."""
    n_residual: int = 1000
    """Collocation points, drawn uniformly in [-1, 1] x [0, 1] (>= 1)."""
    n_initial: int = 100
    """Points on t = 0 (>= 1)."""
    n_boundary: int = 100
    """Points on x = -1 and x = 1, alternating (>= 1)."""
    hidden_width: int = 32
    """Units per hidden layer (>= 1; the compiled kernel takes multiples of 8). From the paper."""
    hidden_layers: int = 4
    """Hidden layers (>= 1). From the paper."""
    steps: int = 500
    """Adam steps per training, `n_epochs` to the program (>= 1). From the paper."""
    learning_rate: float = 1e-3
    """Adam's step size (> 0)."""
    replicas: int = 3
    """Trainings per evaluation, each with its own network, points and run of the program (>= 1); the score is their
    mean. Three tell strategies apart that differ by 15 %, eight by 10 %."""
    metric: str = "relative_l2"
    """Minus the score: `relative_l2`, `residual`, or the paper's `nvl`, which programs can game."""
    backend: str = "auto"
    """`compiled` kernel, `torch`, or `auto` for the kernel where it can be built and the device is the CPU."""
    device: str = "cpu"
    """Where torch trains all replicas at once, for example `cuda`."""

    def __post_init__(self) -> None:
        choices = {"schedule": SCHEDULES, "metric": METRICS, "backend": ("auto", "compiled", "torch")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")
        if self.backend == "compiled" and self.device != "cpu":
            raise ValueError(f"the compiled kernel is for the CPU, not {self.device}: set backend='torch'")
        for constant in fields(BurgersParams):
            name, value = constant.name, getattr(self, constant.name)
            fits = isinstance(value, Integral) and 1 <= int(value) <= 1_000_000
            if type(constant.default) is int and not fits:
                raise ValueError(f"{name} is {value!r}; it must be a whole number (int), 1 to 1,000,000")
            if type(constant.default) is float and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; it must be positive and finite")

    @property
    def viscosity(self) -> Viscosity:
        return Viscosity(self.schedule, self.nu0, self.nu1)
