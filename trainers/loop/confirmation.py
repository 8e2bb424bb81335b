"""The end of a run: its best program against its first, on random numbers that no candidate was chosen by."""

import math
from collections.abc import Callable
from typing import Any

from agents.population.candidate import CandidateRecord
from atlas_gym.evaluation import Pool
from trainers.loop.config import RunConfig
from trainers.loop.memorising import held_out_gap
from trainers.loop.schedule import TaskSchedule
from trainers.store.queries import held_out_key
from trainers.store.store import RunStore


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


def _row(record: CandidateRecord, config: RunConfig, store: RunStore, pool: Pool) -> dict[str, Any]:
    confirmed = _confirmed(record, config, store, pool)
    scores = confirmed["scores"]
    gap = None if record.score is None else held_out_gap(record.score, scores, len(confirmed["failed"]))
    return {
        "id": record.id,
        "origin": record.origin,
        "round": record.round,
        "program": record.program,
        "score": record.score,
        "held_out": sum(scores) / len(scores),
        "held_out_error": _standard_error(scores),
        "held_out_scores": scores,
        "gap": gap and gap.word,
    }


def _confirmed(record: CandidateRecord, config: RunConfig, store: RunStore, pool: Pool) -> dict[str, Any]:
    """Its scores on the held-out tasks, and the statuses of those it failed on."""
    key = held_out_key(record, store.instances)
    stored = store.held_out(key)
    if stored is None:
        tasks = TaskSchedule(config)
        worst = tasks.task(1, record.island).worst_score
        futures = [
            pool.submit(record.program, tasks.held_out(len(config.blocks), seed, record.island))
            for seed in range(config.held_out_seeds)
        ]
        evaluations = [future.result() for future in futures]
        stored = {
            "scores": [worst if e.score is None else e.score for e in evaluations],
            "failed": [str(e.status) for e in evaluations if e.score is None],
        }
        store.add_held_out(key, stored)
    return stored


def _standard_error(scores: list[float]) -> float | None:
    if len(scores) < 2:
        return None
    mean = sum(scores) / len(scores)
    return math.sqrt(sum((s - mean) ** 2 for s in scores) / (len(scores) - 1) / len(scores))
