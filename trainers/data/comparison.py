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
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from atlas_gym.intervals import Interval, mean_interval
from atlas_gym.trainers.data.measures import Outcome, grouped, is_improving, is_new

Groups = Sequence[Sequence[Outcome]]
"""Samples, one group a prompt."""

MARGINS = (0.002, 0.01)
"""Gains that count, in units of score."""

_Sums = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""By instance, the measure's numerator and denominator."""


@dataclass(frozen=True)
class Comparison:
    """One measure of two policies."""

    base: float
    """Of the first; NaN where nothing counts in its denominator."""
    tuned: float
    """Of the second."""
    difference: Interval
    """Tuned less base, with its 95 % interval over instances."""
    instances: int
    """How many there are."""
    ratio_factor: float = math.nan
    """The 95 % interval of the ratio is from `ratio` through this to `ratio` times this (that of its logarithm, over
    instances); NaN where one of the two has none."""

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
    """Every measure by name: ``validity``, ``quality .002``, ``yield .002``, …, ``best of 8``.

    Args:
        base: samples of the one policy.
        tuned: samples of the other, of the same prompts in the same order.
        instances: to which instance each prompt belongs.
        margins: gains that count, in units of score.
        n: samples of a prompt that the best gain is taken of; all, where a prompt has fewer.

    Raises:
        ValueError: there is nothing to compare, or the prompts do not match.
    """
    if not instances or not len(base) == len(tuned) == len(instances):
        raise ValueError(f"{len(base)} and {len(tuned)} groups of samples of {len(instances)} prompts")
    members = grouped(range(len(instances)), lambda index: instances[index])
    n = min(n, *map(len, (*base, *tuned)))

    def both(count: Callable[[Groups], tuple[float, float]]) -> Comparison:
        sums = []
        for groups in (base, tuned):
            rows = [count([groups[index] for index in own]) for own in members.values()]
            numerators, denominators = np.array(rows, dtype=float).T
            sums.append((numerators, denominators))
        return _paired(*sums)

    found = {"validity": both(_validity), f"best of {n}": both(partial(_best, n=n))}
    for margin in margins:
        name = f"{margin:g}".removeprefix("0")
        found[f"quality {name}"] = both(partial(_quality, margin=margin))
        found[f"yield {name}"] = both(partial(_yield, margin=margin))
    return found


def _validity(groups: Groups) -> tuple[float, float]:
    samples = [record for group in groups for record in group]
    return sum(record.passed for record in samples), len(samples)


def _quality(groups: Groups, margin: float) -> tuple[float, float]:
    new = [record for group in groups for record in group if is_new(record)]
    return sum(is_improving(record, margin) for record in new), len(new)


def _yield(groups: Groups, margin: float) -> tuple[float, float]:
    programs = {record.program_key for group in groups for record in group if is_improving(record, margin)}
    return len(programs), sum(map(len, groups))


def _best(groups: Groups, n: int) -> tuple[float, float]:
    gains = [[r.gain for r in group[:n] if is_improving(r) and r.gain is not None] for group in groups]
    return sum(max(own, default=0.0) for own in gains), len(groups)


def _paired(base: _Sums, tuned: _Sums) -> Comparison:
    ratios, residuals = [], []
    for numerator, denominator in (base, tuned):
        total = denominator.sum()
        ratio = float(numerator.sum() / total) if total > 0 else math.nan
        ratios.append(ratio)
        residuals.append(
            (numerator - ratio * denominator) / denominator.mean() if total > 0 else numerator * math.nan
        )
    spread = mean_interval((residuals[1] - residuals[0]).tolist()).half_width
    factor = math.nan
    if all(ratios):
        logarithms = residuals[1] / ratios[1] - residuals[0] / ratios[0]
        factor = math.exp(mean_interval(logarithms.tolist()).half_width)
    return Comparison(ratios[0], ratios[1], Interval(ratios[1] - ratios[0], spread), len(base[0]), factor)
