"""Held-out scores: the full task, seeds that no search has seen."""

from collections.abc import Sequence

from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.registration import load_problem


def confirm(env_id: str, program: str, seeds: int, workers: int = 2) -> list[float]:
    """Scores of a program on the first held-out tasks; a failure counts as the worst score."""
    problem = load_problem(env_id)
    tasks = [problem.task(seed, "held_out") for seed in range(seeds)]
    with EvaluatorPool(workers) as pool:
        evaluations = [future.result() for future in [pool.submit(program, task) for task in tasks]]
    return [problem.spec.worst_score if e.score is None else e.score for e in evaluations]


def confirm_expert(env_id: str, name: str, seeds: int, workers: int = 2) -> list[float]:
    """The same for an expert program."""
    return confirm(env_id, load_problem(env_id).experts()[name].program, seeds, workers)


def relative_gap(scores: Sequence[float], reference: Sequence[float]) -> float:
    """By what share the mean falls short of the reference's (negative: better than it); scores are below 0."""
    return sum(scores) / sum(reference) - 1.0
