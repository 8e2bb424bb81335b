"""Evaluating a batch in two stages: everything on a short task, only the promising part on the full one.

A program that stops at the short stage keeps its short score as an estimate, but is never scored above the
worst of those that were evaluated in full, so that the cheap stage cannot make a winner.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from atlas_gym.evaluation.pool import EvaluatorPool
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation


@dataclass(frozen=True)
class Cascade:
    """Settings of the two-stage evaluation."""

    keep: float = 0.5
    """Share of the batch's valid programs that go on to the full evaluation, rounded up; in (0, 1]."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep is {self.keep}; it is a share in (0, 1]")


def evaluate_all(pool: EvaluatorPool, programs: Sequence[str], tasks: Sequence[Task]) -> list[Evaluation]:
    """Evaluate programs[i] on tasks[i], all at once; results in the same order."""
    futures = [pool.submit(program, task) for program, task in zip(programs, tasks, strict=True)]
    return [future.result() for future in futures]


def evaluate_in_stages(
    pool: EvaluatorPool,
    programs: Sequence[str],
    short_tasks: Sequence[Task],
    tasks: Sequence[Task],
    cascade: Cascade,
) -> tuple[list[Evaluation], list[bool]]:
    """Evaluate on the short tasks, then the best on the full ones; also say which went on."""
    evaluations = evaluate_all(pool, programs, short_tasks)
    promising = _promising(evaluations, cascade.keep)
    full = evaluate_all(pool, [programs[i] for i in promising], [tasks[i] for i in promising])
    for index, evaluation in zip(promising, full, strict=True):
        evaluations[index] = evaluation
    went_on = [index in set(promising) for index in range(len(programs))]
    ceiling = min((e.score for e in full if e.score is not None), default=math.inf)
    return [e if on else _capped(e, ceiling) for e, on in zip(evaluations, went_on, strict=True)], went_on


def _promising(evaluations: Sequence[Evaluation], keep: float) -> list[int]:
    """Indices of the best share of those with a score; ties go to the earlier."""
    scored = [(e.score, index) for index, e in enumerate(evaluations) if e.score is not None]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    return sorted(index for _, index in scored[: math.ceil(keep * len(scored))])


def _capped(evaluation: Evaluation, ceiling: float) -> Evaluation:
    if evaluation.score is None or evaluation.score <= ceiling:
        return evaluation
    return replace(evaluation, score=ceiling)
