"""From traces to numbers: totals per seed, slopes over the horizon, intervals over seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atlas_gym.intervals import mean_interval
from experiments.theory.drift import Array, variation
from experiments.theory.model import Bandit
from experiments.theory.simulate import Trace

CURVE_POINTS = 200


@dataclass(frozen=True)
class Cell:
    """What one setting did at one horizon; arrays have one entry per seed."""

    horizon: int
    """Rounds T."""
    budget: float
    """V_T of Eq. 8, mean over seeds, in units of θ."""
    regret: Array
    """Cumulative dynamic regret R_T (Eq. 14)."""
    learning: Array
    """Its learning error."""
    bias: Array
    """Its reference bias."""
    decomposition_gap: float
    """Largest |regret − learning − bias| of any round of any seed: rounding only."""
    acceptance: Array
    """Mean weight of the candidate in the next reference: the share of promotions under a gate."""
    kl: Array
    """KL(candidate ‖ reference), nats, mean over decisions."""
    lowest: Array
    """log10 of the smallest probability any reference gave to any action; −inf if it excluded one."""
    diversity: Array
    """λ_min(Σ z zᵀ)/W, mean over refits."""
    curve: Array
    """Cumulative regret at `CURVE_POINTS` equally spaced rounds, mean over seeds."""


@dataclass(frozen=True)
class Slope:
    """A log-log slope with its 95 % interval over seeds."""

    mean: float
    """Mean over seeds of each seed's least-squares slope of log R_T over log T."""
    low: float
    """Lower end (Student's t)."""
    high: float
    """Upper end."""

    def overlaps(self, other: Slope) -> bool:
        """Whether the two intervals share a point."""
        return self.low <= other.high and other.low <= self.high


def measure(bandit: Bandit, trace: Trace) -> Cell:
    """The numbers of one simulation."""
    points = np.linspace(0, trace.regret.shape[1] - 1, CURVE_POINTS).round().astype(int)
    gap = np.abs(trace.regret - trace.learning - trace.bias).max()
    return Cell(
        horizon=trace.regret.shape[1],
        budget=float(variation(bandit.parameters).mean()),
        regret=trace.regret.sum(1),
        learning=trace.learning.sum(1),
        bias=trace.bias.sum(1),
        decomposition_gap=float(gap),
        acceptance=trace.weight.mean(1),
        kl=trace.kl.mean(1),
        lowest=trace.lowest_log_reference / np.log(10),
        diversity=trace.diversity.mean(1),
        curve=trace.regret.cumsum(1)[:, points].mean(0),
    )


def interval(values: Array) -> tuple[float, float, float]:
    """Mean and 95 % Student interval over the entries (at least two)."""
    found = mean_interval(values.tolist())
    return found.mean, found.low, found.high


def slopes_by_seed(horizons: Array, totals: Array) -> Array:
    """Least-squares slope of log totals over log horizons; `totals` (horizons, seeds) gives (seeds,)."""
    x = np.log(horizons) - np.log(horizons).mean()
    return (x[:, None] * np.log(totals)).sum(0) / (x**2).sum()


def slope(cells: list[Cell]) -> Slope:
    """Log-log slope of regret over these horizons (at least two, the same seeds in each)."""
    horizons = np.array([cell.horizon for cell in cells], dtype=float)
    return Slope(*interval(slopes_by_seed(horizons, np.stack([cell.regret for cell in cells]))))
