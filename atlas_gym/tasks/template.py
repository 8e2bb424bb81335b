"""A program with numbers left open, and the numbers: their bounds and scales."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import Template as Text
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
        lowest = 0 if self.scale == "log" else -math.inf
        if self.scale not in get_args(Scale) or not lowest < self.low < self.high < math.inf:
            raise ValueError(
                f"{self.name}: scale {self.scale!r} from {self.low} to {self.high}; it has to be log (from above 0) or "
                "linear, its bounds finite and in order"
            )

    def value(self, coordinate: float) -> float | int:
        """The value at a coordinate, which is clipped to [-1, 1]; ValueError for NaN."""
        if math.isnan(coordinate):
            raise ValueError(f"{self.name}: the coordinate is not a number")
        share = (float(np.clip(coordinate, -1.0, 1.0)) + 1.0) / 2.0
        if self.scale == "log":
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + share * (self.high - self.low)
        # Rounding must not leave the bounds.
        if self.integer:
            return int(min(max(round(value), self.low), self.high))
        return min(max(float(f"{value:.{_DIGITS}g}"), float(self.low)), float(self.high))


@dataclass(frozen=True)
class Template:
    """A program text in which `$name` stands for each parameter.

    Example:
        >>> template = Template("constant", "x = $level\\n", (Parameter("level", 0, 10, scale="linear"),))
        >>> template.program([0.0])
        'x = 5.0\\n'
        >>> template.fill(level=2)
        'x = 2\\n'
    """

    name: str
    """How it is called in tables."""
    text: str
    """The program; `$$` is a dollar sign."""
    parameters: tuple[Parameter, ...]
    """Its numbers, in the order of an action's coordinates."""

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if not Text(self.text).is_valid() or set(Text(self.text).get_identifiers()) != set(names):
            raise ValueError(f"{self.name}: the text's places ($name) have to be the parameters {names}")

    @property
    def size(self) -> int:
        return len(self.parameters)

    def values(self, coordinates: Sequence[float] | np.ndarray) -> dict[str, float | int]:
        """The parameters at coordinates in [-1, 1], by name."""
        if len(coordinates) != self.size:
            raise ValueError(f"{self.name} has {self.size} parameters, not {len(coordinates)}")
        return {p.name: p.value(float(c)) for p, c in zip(self.parameters, coordinates, strict=True)}

    def program(self, coordinates: Sequence[float] | np.ndarray) -> str:
        return self.fill(**self.values(coordinates))

    def fill(self, **values: float) -> str:
        """The program with these values; KeyError if one is missing."""
        return Text(self.text).substitute({name: repr(value) for name, value in values.items()})
