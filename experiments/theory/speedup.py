"""What vectorising buys: seeds in one batch or one by one, the rounds of a phase at once or one by one.

All four ways run the same code one after the other in one process, so their ratios mean something on a busy
machine too; the times themselves do not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from experiments.theory.drift import Array
from experiments.theory.learner import Learner
from experiments.theory.model import Bandit, BanditSettings, make_bandits
from experiments.theory.simulate import simulate


@dataclass(frozen=True)
class Timing:
    """One way of running EvoDPO on the same seeds."""

    horizon: int
    """Rounds T."""
    seeds: int
    """Number of seeds."""
    rounds: str
    """How rounds are played: `one by one` or `phase at once`."""
    batch: str
    """How seeds are played: `one by one` or `together`."""
    seconds: float
    """Wall time, best of three."""
    speedup: float
    """Time of the slowest way (both one by one) over this one's."""
    difference: float
    """Largest difference of a cumulative regret from that way's: 0, or rounding."""


def measure_speedup(horizon: int, seeds: int) -> list[Timing]:
    """Time the four ways."""
    settings = BanditSettings(horizon)
    together = [make_bandits(settings, range(seeds))]
    apart = [make_bandits(settings, [seed]) for seed in range(seeds)]
    ways = [
        ("one by one", "one by one", *_best_of_three(apart, 1)),
        ("one by one", "together", *_best_of_three(together, 1)),
        ("phase at once", "one by one", *_best_of_three(apart, None)),
        ("phase at once", "together", *_best_of_three(together, None)),
    ]
    slowest, regret = ways[0][2:]
    return [
        Timing(horizon, seeds, rounds, batch, seconds, slowest / seconds, float(np.abs(found - regret).max()))
        for rounds, batch, seconds, found in ways
    ]


def _best_of_three(bandits: list[Bandit], at_once: int | None) -> tuple[float, Array]:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        regret = np.concatenate([simulate(b, Learner(), at_once=at_once).regret.sum(1) for b in bandits])
        times.append(time.perf_counter() - began)
    return min(times), regret
