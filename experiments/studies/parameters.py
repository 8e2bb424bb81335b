"""One parameter of a sweep, in W&B's notation: what it may be, drawn at random or listed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


class SweepError(ValueError):
    """A sweep file that cannot be used; the message names the key and the fix."""


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]
    """The values, in the file's order."""
    weights: tuple[float, ...]
    """Their probabilities."""

    def sample(self, rng: np.random.Generator) -> Any:
        """A value drawn by its probability."""
        return self.values[int(rng.choice(len(self.values), p=self.weights))]

    def grid(self) -> list[Any]:
        """Every value."""
        return list(self.values)


@dataclass(frozen=True)
class Number:
    """A number between two bounds, both included."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    log: bool = False
    """Whether equal ratios rather than equal differences are equally likely."""
    step: float | None = None
    """Distance of the allowed values, counted from 0 as W&B does; None for all between the bounds."""
    integer: bool = False
    """Whether values are whole numbers."""

    def sample(self, rng: np.random.Generator) -> float | int:
        """A uniform (or log-uniform) value."""
        if self.integer and self.step is None:
            return int(rng.integers(int(self.low), int(self.high) + 1))
        if self.log:
            drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            drawn = rng.uniform(self.low, self.high)
        return self.rounded(drawn)

    def rounded(self, value: float) -> float | int:
        """The nearest allowed value."""
        if self.step is not None:
            value = round(value / self.step) * self.step
        value = min(max(value, self.low), self.high)
        return round(value) if self.integer else value

    def grid(self) -> list[Any]:
        """Every value.

        Raises:
            SweepError: there is no end of them.
        """
        step = self.step or (1 if self.integer else None)
        if step is None:
            raise SweepError("a grid needs `values`, or numbers with a step; this parameter is continuous")
        count = math.floor((self.high - self.low) / step + 1e-9)
        return list(dict.fromkeys(self.rounded(self.low + i * step) for i in range(count + 1)))


Parameter = Choice | Number

_NUMBERS = {
    "uniform": {},
    "int_uniform": {"integer": True},
    "q_uniform": {"step": True},
    "log_uniform_values": {"log": True},
    "q_log_uniform_values": {"log": True, "step": True},
}


def parse_parameter(name: str, entry: Any) -> Parameter:
    """Read a parameter.

    Raises:
        SweepError: it is none, or of a distribution that is not supported here.
    """
    if not isinstance(entry, Mapping):
        raise SweepError(f"parameters.{name} must be a mapping such as {{value: {entry!r}}}")
    if "parameters" in entry:
        raise SweepError(f"parameters.{name} is nested; write its members as {name}.MEMBER")
    try:
        if "value" in entry:
            return Choice((entry["value"],), (1.0,))
        if "values" in entry:
            return _choice(entry)
        return _number(entry)
    except (KeyError, TypeError, ValueError) as error:
        raise SweepError(f"parameters.{name}: {error}") from error


def _choice(entry: Mapping[str, Any]) -> Choice:
    values = tuple(entry["values"])
    weights = np.array(entry.get("probabilities", [1.0] * len(values)), dtype=float)
    if len(values) == 0 or len(weights) != len(values) or not weights.sum() > 0 or (weights < 0).any():
        raise ValueError("`values` needs at least one value, and `probabilities` one number for each")
    return Choice(values, tuple((weights / weights.sum()).tolist()))


def _number(entry: Mapping[str, Any]) -> Number:
    if "min" not in entry or "max" not in entry:
        raise ValueError("give `value`, `values`, or `min` and `max`")
    low, high = entry["min"], entry["max"]
    whole = isinstance(low, int) and isinstance(high, int)
    kind = entry.get("distribution", "int_uniform" if whole else "uniform")
    if kind not in _NUMBERS:
        raise ValueError(f"distribution {kind!r} is not supported here; use one of {', '.join(_NUMBERS)}")
    options = _NUMBERS[kind]
    if not low <= high or ("log" in options and not low > 0):
        raise ValueError(f"min {low} and max {high} span nothing" if low > high else "min must be positive")
    step = float(entry.get("q", 1)) if "step" in options else None
    return Number(
        low, high, "log" in options, step, "integer" in options or (step is not None and step == int(step))
    )
