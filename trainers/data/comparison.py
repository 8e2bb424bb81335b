"""The measure of learning: two policies on the same prompts, under the same seeds.

| measure | of what | per |
|---|---|---|
| ``validity`` | samples that ran and were scored | sample |
| ``quality`` at a margin | improving samples | valid, new sample |
| ``yield`` at a margin | distinct improving programs of an instance | sample |
| ``best_of_n`` | the best gain over the parent among the first n samples, 0 if none improves | prompt |

Each is a ratio of sums over *instances* (tasks as they were drawn): the samples of a prompt and the prompts of an
instance resemble each other, so only instances count as independent. The error of a difference comes from the
linearised ratios, paired by instance.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from atlas_gym.intervals import Interval, mean_interval
from atlas_gym.trainers.data.measures import Outcome, grouped, is_improving, is_new

Groups = Sequence[Sequence[Outcome]]
"""Samples, one group a prompt."""

MARGINS = (0.002, 0.01)
"""Gains that count, in units of score."""


@dataclass(frozen=True)
class Comparison:
    """One measure of two policies."""

    base: float  # naN where nothing counts in its denominator
    tuned: float
    difference: Interval  # tuned less base, with its 95 % interval over instances
    instances: int
    # the 95 % interval of the ratio is from `ratio` through this to `ratio` times this (that of its logarithm, over
    # instances); NaN where one of the two has none
    ratio_factor: float = math.nan

    @property
    def detectable(self) -> float:
        """The true difference that 4 of 5 such measurements would tell from none; NaN without an interval."""
        instances = self.instances - 1
        return self.difference.half_width * (1 + float(stdtrit(instances, 0.8) / stdtrit(instances, 0.975)))

    @property
    def ratio(self) -> float:
        """Tuned over base; infinite or NaN where the base has none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.float64(self.tuned) / self.base)


def compare(
    base: Groups, tuned: Groups, instances: Sequence[Hashable], margins: Sequence[float] = MARGINS, n: int = 8
) -> dict[str, Comparison]:
    """Every measure by name: ``validity``, ``quality .002``, ``yield .002``, …, ``best of 8``, from samples of two
    policies of the same prompts in the same order.

    `instances`: to which instance each prompt belongs. `margins`: gains that count, in units of score. `n`: samples of
    a prompt that the best gain is taken of; at most the fewest that one has. Raises ValueError if there is nothing to
    compare, or the prompts do not match.
    """
    if not instances or not len(base) == len(tuned) == len(instances):
        raise ValueError(f"{len(base)} and {len(tuned)} groups of samples of {len(instances)} prompts")
    members = grouped(range(len(instances)), lambda index: instances[index])
    n = min(n, *map(len, (*base, *tuned)))

    sides = [
        [_sums([groups[index] for index in own], margins, n) for own in members.values()]
        for groups in (base, tuned)
    ]
    return {name: _paired(*([row[name] for row in rows] for rows in sides)) for name in sides[0][0]}


def _sums(groups: Groups, margins: Sequence[float], n: int) -> dict[str, tuple[float, float]]:
    """Numerator and denominator of every measure, of one instance."""
    samples = [record for group in groups for record in group]
    new = [record for record in samples if is_new(record)]
    gains = [[r.gain for r in group[:n] if is_improving(r) and r.gain is not None] for group in groups]
    found: dict[str, tuple[float, float]] = {
        "validity": (sum(record.passed for record in samples), len(samples)),
        f"best of {n}": (sum(max(own, default=0.0) for own in gains), len(groups)),
    }
    for margin in margins:
        name, improving = f"{margin:g}".removeprefix("0"), [r for r in new if is_improving(r, margin)]
        found[f"quality {name}"] = len(improving), len(new)
        found[f"yield {name}"] = len({record.program_key for record in improving}), len(samples)
    return found


def _paired(base: Sequence[tuple[float, float]], tuned: Sequence[tuple[float, float]]) -> Comparison:
    ratios, residuals = [], []
    for sums in (base, tuned):
        numerator, denominator = np.array(sums, dtype=float).T
        total = denominator.sum()
        ratio = float(numerator.sum() / total) if total > 0 else math.nan
        ratios.append(ratio)
        scale = denominator.mean() if total > 0 else math.nan
        residuals.append((numerator - ratio * denominator) / scale)
    spread = mean_interval((residuals[1] - residuals[0]).tolist()).half_width
    factor = math.nan
    if all(ratios):
        logarithms = residuals[1] / ratios[1] - residuals[0] / ratios[0]
        factor = math.exp(mean_interval(logarithms.tolist()).half_width)
    return Comparison(ratios[0], ratios[1], Interval(ratios[1] - ratios[0], spread), len(base), factor)
