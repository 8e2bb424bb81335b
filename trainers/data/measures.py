"""What a batch of candidates says about the policy that wrote it: counts, shares and gains."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from atlas_gym.agents.population.candidate import Candidate

T = TypeVar("T")

GAIN_CLIP = 0.05
"""Units of score: a larger gain of one completion counts as this much in Ŝ."""
VALID_SHARE, DISTINCT_SHARE = "valid_share", "distinct_share"
"""Names of the measurements that are better when higher."""


@dataclass(frozen=True)
class Answer:
    """A sample of a measurement, without its texts."""

    passed: bool  # it ran and was scored
    is_copy: bool  # it is its parent again
    program_key: str | None  # its normalised syntax tree; None if it does not parse
    gain: float | None  # its score less its parent's, None unless it passed


Outcome = Candidate | Answer
"""Either has all that the measures count."""


def counts(records: Sequence[Candidate], margin: float) -> dict[str, Any]:
    """Counts over a round's candidates, as plain values. `margin`: the least gain of an improving one."""
    return {
        "samples": len(records),
        "valid": sum(r.passed for r in records),
        "new": sum(map(is_new, records)),
        "improving": sum(is_improving(r, margin) for r in records),
        # A run counts a program in the round that wrote it first.
        "distinct": len(distinct_programs(r for r in records if r.duplicate_of is None)),
        "statuses": dict(Counter(record.status for record in records)),
        "best": max((r.score for r in records if r.score is not None), default=None),
    }


def measurements(records: Sequence[Candidate], errors: Sequence[str]) -> dict[str, float]:
    """Measurements that an inspector compares policies by: shares, and the mean over what passed of each metric that
    `ProgramTask.errors` names; without those that no sample has."""
    found = {
        VALID_SHARE: sum(r.passed for r in records) / len(records),
        DISTINCT_SHARE: len(distinct_programs(records)) / len(records),
    }
    for name in errors:
        values = [r.metrics[name] for r in records if r.passed and name in r.metrics]
        if values:
            found[name] = sum(values) / len(values)
    return found


def mean_gain(group: Sequence[Candidate]) -> float:
    """Mean gain over the parent of one prompt's answers, each between 0 (also for a failure) and `GAIN_CLIP`."""
    return fmean(min(max(0.0, r.gain), GAIN_CLIP) if r.passed and r.gain is not None else 0.0 for r in group)


def is_new(record: Outcome) -> bool:
    """Valid, and not its parent again."""
    return record.passed and not record.is_copy


def distinct_programs(records: Iterable[Candidate]) -> set[str | None]:
    """Keys of the new programs, each once."""
    return {record.program_key for record in records if is_new(record)}


def is_improving(record: Outcome, margin: float = 0.0) -> bool:
    """New and better than its parent by more than the margin."""
    return is_new(record) and record.gain is not None and record.gain > margin


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, list[T]]:
    """Items with equal keys together, groups in the order of their first member."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def thinned(items: Sequence[T], most: int, rng: np.random.Generator) -> list[T]:
    """At most so many items, in their order; of more, some at random, each as likely as any other."""
    if len(items) <= most:
        return list(items)
    return [items[index] for index in sorted(rng.choice(len(items), most, replace=False))]
