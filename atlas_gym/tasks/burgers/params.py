"""The constants of the Burgers task."""

import math
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
"""Named sets of constants. `paper` differs by its metric only: the paper does not give its other
constants."""


@dataclass(frozen=True)
class Viscosity:
    """nu(t) from nu0 at t = 0 to nu1 at t = 1; `constant` is nu1 throughout. The reference solver needs
    its integral."""

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


@dataclass(frozen=True)
class BurgersParams:
    """What is solved, by which network, trained how, and scored by what."""

    schedule: str = "geometric"
    """How the viscosity goes from nu0 to nu1 over t in [0, 1]: `geometric`, `linear`, or `constant` (nu1
    throughout)."""
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
    """Trainings per evaluation, each with its own network, points and run of the program (>= 1); the score is
    their mean. Three tell strategies apart that differ by 15 %, eight by 10 %, at a cost that is
    proportional."""
    metric: str = "relative_l2"
    """What the score is the negative of: `relative_l2`, `residual`, or the paper's `nvl`, which programs can
    game."""
    backend: str = "auto"
    """Who does the arithmetic: `compiled`, `torch`, or `auto` for the compiled kernel where it can be built and
    the device is the CPU."""
    device: str = "cpu"
    """Where torch does it, for example `cuda`: all replicas at once. The compiled kernel is for the CPU."""

    def __post_init__(self) -> None:
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("metric", self.metric, METRICS)
        _check_choice("backend", self.backend, ("auto", "compiled", "torch"))
        if self.backend == "compiled" and self.device != "cpu":
            raise ValueError(
                f"the compiled kernel runs on the CPU, not on {self.device}: set backend='torch'"
            )
        for constant in fields(BurgersParams):
            name, value = constant.name, getattr(self, constant.name)
            fits = isinstance(value, Integral) and 1 <= int(value) <= 1_000_000
            if type(constant.default) is int and not fits:
                raise ValueError(f"{name} is {value!r}; it must be a whole number (int), 1 to 1,000,000")
            if type(constant.default) is float and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; it must be positive and finite")

    @property
    def viscosity(self) -> Viscosity:
        """nu(t)."""
        return Viscosity(self.schedule, self.nu0, self.nu1)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
