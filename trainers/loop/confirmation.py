"""The end of a run: its best program against its first, on random numbers that no candidate was chosen by.

A run scores every candidate on one task, so that scores are paired; what programs let out (their error texts, their
statuses, their very scores) tells later programs about that task. The training score of a program that remembers it
is not borne out by its held-out scores (`held_out_gap`).
"""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, variance
from typing import Any

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.evaluation import Pool
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.tasks import Tasks
from atlas_gym.trainers.store.queries import held_out_key
from atlas_gym.trainers.store.store import RunStore

LARGE = 3.0
"""A gap of more than this many standard deviations is called large."""


def confirm(config: RunConfig, store: RunStore, pool: Pool, tell: Callable[..., None]) -> dict[str, Any]:
    """Score the initial and the best program on held-out tasks and put the run's summary together; with several
    instances those of each, and as the best the program that lies furthest above its start.

    Each held-out seed is a task of its own (with the run's number of replicas), so the spread over them is the
    spread a user of the program would see. A program that fails on one of them gets the worst score for it, as it
    would from the environment: it cannot choose the tasks it is confirmed on.
    """

    def rows(instance: int | None) -> dict[str, Any]:
        (best,) = store.best_candidates(1, instance)
        initial = store.start(island=best.island)
        return {"initial": _row(initial, config, store, pool), "best": _row(best, config, store, pool)}

    tell("stage", f"confirming on {config.held_out_seeds} held-out seeds")
    constants = [dict(own.env_args) for own in config.instances] or [{}]
    instances = [{"env_args": constants[number], **rows(number)} for number in range(store.instances)]
    return {
        "env": config.env,
        "method": config.method,
        "seed": config.seed,
        "rounds": config.rounds,
        "held_out_seeds": config.held_out_seeds,
        **rows(None),
        "instances": instances,
        **store.candidate_counts(),
    }


def _row(record: Candidate, config: RunConfig, store: RunStore, pool: Pool) -> dict[str, Any]:
    """A program with its scores on the held-out tasks, and of those it failed on the statuses."""
    key = held_out_key(record, store.instances)
    confirmed = store.held_out(key)
    if confirmed is None:
        posed = Tasks(config)
        tasks = [posed.held_out(seed, record.island) for seed in range(config.held_out_seeds)]
        futures = [pool.submit(record.program, task) for task in tasks]
        evaluations = [future.result() for future in futures]
        worst = tasks[0].worst_score
        confirmed = {
            "scores": [worst if e.score is None else e.score for e in evaluations],
            "failed": [str(e.status) for e in evaluations if e.score is None],
        }
        store.add_held_out(key, confirmed)
    scores = confirmed["scores"]
    return {
        "id": record.id,
        "origin": record.origin,
        "round": record.round,
        "program": record.program,
        "score": record.score,
        "held_out": sum(scores) / len(scores),
        "held_out_scores": scores,
        "gap": held_out_gap(record.score, scores, len(confirmed["failed"])),
    }


def held_out_gap(training: float | None, held_out: Sequence[float], failed: int) -> str:
    """A training score less the mean of held-out scores, `failed` of them worst scores, in words; empty without them.

    The training task is one more draw of what the held-out tasks are drawn from. So for a program that does not
    depend on it the gap has the standard deviation s·√(1 + 1/n), with s and n those of the held-out scores.
    """
    if training is None or not held_out:
        return ""
    n, gap = len(held_out), training - fmean(held_out)
    chance = LARGE * math.sqrt(variance(held_out) * (1 + 1 / n)) if n > 1 else math.inf
    said = f"{gap:+.4f}" + (f" (chance: up to {chance:.4f})" if n > 1 else "")
    said += f"; fails on {failed} held-out tasks" if failed else ""
    return said + ("; large: memorised or overfitted" if failed or gap > chance else "")
