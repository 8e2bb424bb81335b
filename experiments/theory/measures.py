"""From traces to numbers: totals per seed, slopes over the horizon, intervals over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atlas_gym.intervals import Interval, mean_interval
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


def slopes_by_seed(cells: Sequence[Cell]) -> Array:
    """Least-squares slope of log R_T over log T of each seed, over at least two horizons with the same seeds."""
    logs = np.log([cell.horizon for cell in cells])
    return np.polyfit(logs, np.log([cell.regret for cell in cells]), 1)[0]


def slope(cells: Sequence[Cell]) -> Interval:
    """Mean over seeds of these slopes."""
    return mean_interval(slopes_by_seed(cells))
