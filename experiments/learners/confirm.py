"""Held-out scores: the full task, seeds that no search has seen."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from atlas_gym import make_task
from atlas_gym.evaluation import EvaluatorPool
from experiments.learners.objective import patient


def confirm(env_id: str, program: str, seeds: int, workers: int = 2) -> list[float]:
    """Scores of a program on the first held-out tasks; a failure counts as the worst score."""
    problem = make_task(env_id)
    tasks: list[Any] = [problem.task(seed, "held_out") for seed in range(seeds)]
    tasks = [replace(task, limits=patient(task.limits)) for task in tasks]
    with EvaluatorPool(workers) as pool:
        evaluations = [future.result() for future in [pool.submit(program, task) for task in tasks]]
    return [problem.spec.worst_score if e.score is None else e.score for e in evaluations]


def confirm_expert(env_id: str, name: str, seeds: int, workers: int = 2) -> list[float]:
    """The same for an expert program."""
    return confirm(env_id, make_task(env_id).programs[name].program, seeds, workers)


def relative_gap(scores: Sequence[float], reference: Sequence[float]) -> float:
    """By what share the mean falls short of the reference's (negative: better than it); scores are below 0."""
    return sum(scores) / sum(reference) - 1.0
