"""Means over seeds with their standard errors and 95 % confidence intervals.

Student's t throughout: scores of different seeds are independent and their number is small.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and how far it may be off."""

    mean: float
    """The estimate."""
    half_width: float
    """Half the length of the 95 % confidence interval; NaN where there is one value only."""

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    def in_words(self, above: str, below: str, otherwise: str) -> str:
        """The text for one that lies above 0, below, or neither, as one with NaN ends."""
        if self.low > 0:
            return above
        return below if self.high < 0 else otherwise

    def __format__(self, form: str) -> str:
        """The mean with both ends, each number of that form: `1.0 [0.5, 1.5]` is one of `.1f`."""
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def mean_interval(values: Sequence[float] | np.ndarray) -> Interval:
    """The mean of independent values; ValueError without any."""
    if len(values) == 0:
        raise ValueError("the mean of no values")
    return Interval(float(np.mean(values)), float(half_width(values)))


def improvement_interval(scores: Sequence[float], baseline: Sequence[float]) -> Interval:
    """By what share the mean of negative scores is closer to 0 than the baseline's, both on the same seeds.

    1 − Σ scores / Σ baseline, its error from the linearised ratio: pairing removes what both share of a seed.
    """
    numerator, denominator = np.asarray(scores), np.asarray(baseline)
    ratio = numerator.mean() / denominator.mean()
    residuals = (numerator - ratio * denominator) / denominator.mean()
    return Interval(1.0 - float(ratio), float(half_width(residuals)))


def standard_error(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Of the mean of independent values, along the first axis; NaN for one value only."""
    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return np.full(found.shape[1:], np.nan)
    return np.sqrt(found.var(axis=0, ddof=1) / len(found))


def half_width(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Half the length of the mean's 95 % confidence interval, along the first axis; NaN for one value only."""
    return stdtrit(max(1, len(values) - 1), 0.5 + CONFIDENCE / 2) * standard_error(values)
