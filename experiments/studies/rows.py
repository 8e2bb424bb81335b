"""A study's runs as rows of plain numbers, one CSV a kind: what every table and figure is made of."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pandas as pd

from atlas_gym.experiments.loggers.metrics import improvement
from atlas_gym.experiments.report.data import RunData, read_run
from atlas_gym.experiments.report.tables import Row, instance_scores, run_row, share
from atlas_gym.experiments.studies.plan import DONE, Plan
from atlas_gym.trainers.data.measures import distinct_programs
from atlas_gym.trainers.loop.exam import learned


def round_rows(run: RunData) -> Iterator[Row]:
    """One row a round: best score so far, and the shares of valid and of distinct programs."""
    evaluations = 0
    for round_, own in groupby(run.everything(), key=lambda c: c.round):
        records = list(own)
        evaluations += sum(c.duplicate_of is None for c in records)
        distinct = distinct_programs(c for c in records if c.duplicate_of is None)
        yield {
            "round": round_,
            "evaluations": evaluations,
            "best_training": max((s for n, s in run.curve if n <= evaluations), default=math.nan),
            "valid_share": share(sum(c.passed for c in records), len(records)),
            "distinct_share": share(len(distinct), len(records)),
        }


def curve_rows(run: RunData) -> Iterator[Row]:
    """One row an improvement of the best score, of several instances the mean of theirs, and one at the end."""
    for evaluations, best in run.curve:
        # To the digits that the file keeps: what differs less is no progress, and tables made of either agree.
        yield {"evaluations": evaluations, "best_training": float(f"{best:.7g}")}


def phase_rows(run: RunData) -> Iterator[Row]:
    """One row a tuning phase."""
    for phase in run.tuned_phases:
        yield {
            **{key: phase.get(key) for key in ("phase", "round", "pairs", "loss", "accuracy", "kl", "gain")},
            "gain_error": phase.get("gain_error"),
            "promoted": int(bool(phase["promoted"])),
            "changed": " ".join(phase.get("changed_controls", ())),
            "seconds": sum(phase["seconds"].values()),
        }


def instance_rows(run: RunData) -> Iterator[Row]:
    """One row an instance, where there are several: its first and its best program on held-out seeds."""
    scores = instance_scores(run)
    for number, (initial, best) in enumerate(scores if len(scores) > 1 else ()):
        yield {
            "instance": number,
            "initial_held_out": initial,
            "best_held_out": best,
            "improvement": improvement(initial, best),
        }


def origin_rows(run: RunData) -> Iterator[Row]:
    """One row an origin: who wrote how many programs, how many ran, how many improved, the best."""
    for origin in ("agent", "supporter"):
        records = [c for c in run.everything() if c.origin == origin]
        scores = [c.score for c in records if c.score is not None]
        if records:
            yield {
                "origin": origin,
                "candidates": len(records),
                "valid_share": share(len(scores), len(records)),
                "distinct": len(distinct_programs(records)),
                "better_than_parent": sum(c.gain is not None and c.gain > 0 for c in records),
                "best_training": max(scores, default=None),
            }


def measure_rows(run: RunData) -> Iterator[Row]:
    """One row a phase and measure: base model against tuned policy on instances that no phase saw."""
    for phase, measures in learned(run.exams).items():
        for name, found in measures.items():
            yield {
                "phase": phase,
                "measure": name,
                "base": found.base,
                "tuned": found.tuned,
                "difference": found.difference.mean,
                "half_width": found.difference.half_width,
                "instances": found.instances,
            }


KINDS: dict[str, Callable[[RunData], Iterable[Row]]] = {
    "runs": lambda run: [run_row(run)], "rounds": round_rows, "curves": curve_rows, "phases": phase_rows,
    "instances": instance_rows, "origins": origin_rows, "measures": measure_rows,
}  # fmt: skip
"""A CSV file each."""


def collect(plan: Plan, folder: Path) -> dict[str, pd.DataFrame]:
    """What those runs have come to that have come to their end, by kind; kinds without rows are left out."""
    runs = [
        ({"arm": planned.arm, "start": planned.start, "seed": planned.seed}, read_run(folder / planned.name))
        for planned in plan.runs()
        if (folder / planned.name / DONE).exists()
    ]
    found = {
        name: pd.DataFrame([{**key, **row} for key, run in runs for row in rows(run)])
        for name, rows in KINDS.items()
    }
    return {name: frame for name, frame in found.items() if len(frame)}
