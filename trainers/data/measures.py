"""What a batch of candidates says about the policy that wrote it: shares with their standard errors.

Standard errors are clustered by prompt: samples of one prompt resemble each other, so shares are
averaged over prompts and their spread is taken between prompts.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.intervals import standard_error

T = TypeVar("T")

VALID_SHARE, DISTINCT_SHARE = "valid_share", "distinct_share"
"""Names of the measurements that are better when higher."""


@dataclass(frozen=True)
class Answer:
    """What is kept of a sample."""

    passed: bool
    """Whether it ran and was scored."""
    is_copy: bool
    """Whether it is its parent again."""
    program_key: str | None
    """Its normalised syntax tree; None if it does not parse."""
    gain: float | None
    """Its score less its parent's, None unless it passed."""


Outcome = CandidateRecord | Answer
"""What is counted of a candidate, and enough to keep of one that enters nothing."""


def measure(groups: Sequence[Sequence[CandidateRecord]], margin: float = 0.0) -> dict[str, Any]:
    """Shares over groups of samples, one group a prompt, as plain values.

    `valid` (ran and was scored), `new` (valid, and not the parent again) and `improving` (new and better than its
    parent by more than the margin) are means over prompts of the per-prompt share, in [0, 1], each a `value` with its
    standard `error` over prompts (NaN with a single one). `distinct` counts each new program once, `distinct_share` is
    the same per sample, `distinct_improving` counts each improving one once.

    Args:
        groups: the samples of each prompt; none may be empty.
        margin: how much better than its parent an improving program must be, in units of score.
    """
    samples = [record for group in groups for record in group]
    improving = [r for r in samples if is_improving(r, margin)]
    distinct = len(distinct_programs(samples))
    return {
        "samples": len(samples),
        "prompts": len(groups),
        "valid": _share(groups, lambda r: r.passed),
        "new": _share(groups, is_new),
        "improving": _share(groups, lambda r: is_improving(r, margin)),
        "distinct": distinct,
        "distinct_share": distinct / len(samples) if samples else 0.0,
        "distinct_improving": len({r.program_key for r in improving}),
    }


def counts(records: Sequence[CandidateRecord], margin: float) -> dict[str, Any]:
    """What is counted of a unit's candidates, as plain values.

    Args:
        records: the candidates.
        margin: how much better than its parent an improving program must be, in units of score.
    """
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


def measurements(records: Sequence[CandidateRecord], errors: Sequence[str]) -> dict[str, float]:
    """What an inspector compares policies by: shares, and the mean of each error metric over what passed.

    Args:
        records: fresh samples of one policy, at least one.
        errors: names of metrics that are errors (`ProgramTask.errors`); those that no sample has are left out.
    """
    found = {
        VALID_SHARE: sum(r.passed for r in records) / len(records),
        DISTINCT_SHARE: len(distinct_programs(records)) / len(records),
    }
    for name in errors:
        values = [r.metrics[name] for r in records if r.passed and name in r.metrics]
        if values:
            found[name] = sum(values) / len(values)
    return found


def mean_gain(group: Sequence[CandidateRecord], clip: float) -> float:
    """Mean gain over the parent of one prompt's answers, each between 0 (also for a failure) and `clip`, in units of
    score."""
    return fmean(min(max(0.0, r.gain), clip) if r.passed and r.gain is not None else 0.0 for r in group)


def is_new(record: Outcome) -> bool:
    """Valid, and not its parent again."""
    return record.passed and not record.is_copy


def distinct_programs(records: Iterable[CandidateRecord]) -> set[str | None]:
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


def _share(
    groups: Sequence[Sequence[CandidateRecord]], holds: Callable[[CandidateRecord], bool]
) -> dict[str, float]:
    if not groups:
        return {"value": math.nan, "error": math.nan}
    per_prompt = [sum(map(holds, group)) / len(group) for group in groups]
    return {"value": fmean(per_prompt), "error": float(standard_error(per_prompt))}
