"""Early termination as W&B does it: at certain iterations only the best share of the runs goes on.

An iteration is one value of the metric: for `explore/best`, a round. At each band a run is judged by its best value
up to there, against every run that has come that far; it goes on if it is among the best 1/eta of them. The first
run at a band is always among the best, so runs that start early are judged again when others have caught up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.studies.parameters import SweepError

_MOST_BANDS = 30


@dataclass(frozen=True)
class Hyperband:
    """When a run is cut short."""

    bands: tuple[int, ...]
    """Iterations at which runs are judged, ascending."""
    eta: float
    """One in eta goes on."""

    @classmethod
    def parse(cls, values: Any) -> "Hyperband":
        """Read `early_terminate`.

        Raises:
            SweepError: it is not hyperband, or has no bands.
        """
        if not isinstance(values, Mapping) or values.get("type") != "hyperband":
            raise SweepError("early_terminate must have type: hyperband")
        unknown = sorted(set(values) - {"type", "min_iter", "max_iter", "s", "eta"})
        if unknown:
            raise SweepError(f"early_terminate.{unknown[0]} is not supported here")
        eta = float(values.get("eta", 3))
        if not eta > 1:
            raise SweepError("early_terminate.eta must be larger than 1")
        if "min_iter" in values:
            bands = [int(values["min_iter"] * eta**i) for i in range(_MOST_BANDS)]
        elif "max_iter" in values:
            bands = [int(values["max_iter"] / eta**i) for i in range(1, int(values.get("s", 1)) + 1)]
        else:
            raise SweepError("early_terminate needs min_iter, or max_iter and s")
        bands = sorted({band for band in bands if band >= 1})
        if not bands:
            raise SweepError("early_terminate has no band of at least one iteration")
        return cls(tuple(bands), eta)

    def stops(self, run: Sequence[float], others: Sequence[Sequence[float]], maximize: bool) -> bool:
        """Whether a run is to be cut short.

        Args:
            run: its metric so far, an iteration each.
            others: the same of every other run of the sweep, ended ones included.
            maximize: whether larger is better.
        """
        reached = [band for band in self.bands if band <= len(run)]
        if not reached:
            return False
        band, sign = reached[-1], 1.0 if maximize else -1.0
        mine = max(sign * value for value in run[:band])
        there = [max(sign * v for v in history[:band]) for history in (*others, run) if len(history) >= band]
        going_on = sorted(there, reverse=True)[: math.ceil(len(there) / self.eta)]
        return mine < going_on[-1]
