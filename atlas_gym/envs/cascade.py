"""Evaluating a batch in two stages: everything on a short task, only the promising part on the full one.

The two tasks have different scales, so a score on the short one never leaves this module: a program that stops
there has the status `screened` and no score, as if it had failed. Programs are compared with those of the same
task only; one that is alone with its task is always evaluated in full.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation, Status
from atlas_gym.evaluation.scheduler import Pool


@dataclass(frozen=True)
class Cascade:
    """Settings of the two-stage evaluation."""

    keep: float = 0.5
    """Share of the valid programs of each task that go on to the full evaluation, rounded up; in (0, 1]."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep is {self.keep}; it is a share in (0, 1]")


def evaluate_in_stages(
    pool: Pool, programs: Sequence[str], short_tasks: Sequence[Task], tasks: Sequence[Task], cascade: Cascade
) -> tuple[list[Evaluation], list[bool]]:
    """Evaluate on the short tasks, then the best on the full ones; also say which went on."""
    short = pool.evaluate_all(programs, short_tasks)
    promising = _promising(short, tasks, cascade.keep)
    full = pool.evaluate_all([programs[i] for i in promising], [tasks[i] for i in promising])
    evaluations = [Evaluation(Status.SCREENED, None) if evaluation.ok else evaluation for evaluation in short]
    for index, evaluation in zip(promising, full, strict=True):
        evaluations[index] = evaluation
    went_on = set(promising)
    return evaluations, [index in went_on for index in range(len(programs))]


def _promising(evaluations: Sequence[Evaluation], tasks: Sequence[Task], keep: float) -> list[int]:
    """Indices of each task's best share of the programs with a score; ties go to the earlier."""
    groups: dict[Task, list[tuple[float, int]]] = {}
    for index, (evaluation, task) in enumerate(zip(evaluations, tasks, strict=True)):
        if evaluation.score is not None:
            groups.setdefault(task, []).append((-evaluation.score, index))
    # 0.07 of 100 programs are 7, though the product in floating point is a little more.
    kept = {task: math.ceil(keep * len(group) - 1e-9) for task, group in groups.items()}
    return sorted(i for task, group in groups.items() for _, i in sorted(group)[: kept[task]])
