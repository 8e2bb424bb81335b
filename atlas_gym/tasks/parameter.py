"""A named number in a template: its bounds, its scale and whether it is whole."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Scale = Literal["log", "linear"]

#: Digits that end up in the program: more than any score depends on, few enough to read.
_DIGITS = 6


@dataclass(frozen=True)
class Parameter:
    """One number of a template; learners see it as a coordinate in [-1, 1].

    Example:
        >>> window = Parameter("window", 5, 500, integer=True)
        >>> window.value(-1.0), window.value(0.0), window.value(1.0)
        (5, 50, 500)
        >>> round(window.coordinate(50), 6)
        0.0
    """

    name: str
    """Where the template says `$name`."""
    low: float
    """Value at coordinate -1."""
    high: float
    """Value at coordinate 1."""
    scale: Scale = "log"
    """`log`: equal steps of the coordinate multiply the value; `linear`: they add to it."""
    integer: bool = False
    """Whether the value is rounded to a whole number."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"{self.name!r} is no name for a parameter: it has to be an identifier")
        if self.scale not in get_args(Scale):
            raise ValueError(f"{self.name}: scale is {self.scale!r}; it is one of {get_args(Scale)}")
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"{self.name}: low {self.low} has to be below high {self.high}, both finite")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"{self.name}: a logarithmic scale needs low > 0, not {self.low}")
        if self.integer and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise ValueError(f"{self.name}: the bounds of a whole number are whole")

    def value(self, coordinate: float) -> float | int:
        """The value at a coordinate, which is clipped to [-1, 1]; ValueError if it is not a number."""
        if math.isnan(coordinate):
            raise ValueError(f"{self.name}: the coordinate is not a number")
        share = (float(np.clip(coordinate, -1.0, 1.0)) + 1.0) / 2.0
        if self.scale == "log":
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + share * (self.high - self.low)
        return self._rounded(value)

    def coordinate(self, value: float) -> float:
        """The coordinate of a value; values outside the bounds give the nearer end."""
        inside = min(max(float(value), self.low), self.high)
        if self.scale == "log":
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return 2.0 * share - 1.0

    def _rounded(self, value: float) -> float | int:
        # Rounding must not leave the bounds.
        if self.integer:
            return int(min(max(round(value), self.low), self.high))
        return min(max(float(f"{value:.{_DIGITS}g}"), float(self.low)), float(self.high))
