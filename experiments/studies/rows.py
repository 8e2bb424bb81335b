"""A study's runs as rows of plain numbers, one CSV a kind: what every table and figure is made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.report.data import RunData, read_run
from experiments.report.rows import Row, run_row, share
from experiments.studies.plan import DONE, Plan, PlannedRun
from trainers.data.measures import distinct_programs
from trainers.loop.measure import MEASURE, learned


@dataclass(frozen=True)
class Finished:
    """A finished run of a study."""

    planned: PlannedRun
    """What it was to be."""
    run: RunData
    """What it came to."""

    @property
    def key(self) -> Row:
        """The columns that tell runs apart."""
        return {"arm": self.planned.arm, "start": self.planned.start, "seed": self.planned.seed}


def finished(plan: Plan, folder: Path) -> list[Finished]:
    """Those runs of a study that have come to their end."""
    return [
        Finished(run, read_run(folder / run.name))
        for run in plan.runs()
        if (folder / run.name / DONE).exists()
    ]


def run_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a run."""
    for item in runs:
        yield {**item.key, **run_row(item.run)}


def round_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a round: best score so far, and the shares of valid and of distinct programs."""
    for item in runs:
        best, evaluations = -float("inf"), 0
        for round_ in range(item.run.rounds + 1):
            records = [c for c in item.run.candidates if c.round == round_]
            best = max([best, *(c.score for c in records if c.score is not None)])
            evaluations += sum(c.duplicate_of is None for c in records)
            distinct = distinct_programs(c for c in records if c.duplicate_of is None)
            yield {
                **item.key,
                "round": round_,
                "evaluations": evaluations,
                "best_training": best,
                "valid_share": share(sum(c.passed for c in records), len(records)),
                "distinct_share": share(len(distinct), len(records)),
            }


def phase_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a tuning phase."""
    for item in runs:
        for phase in item.run.tuned_phases:
            yield {
                **item.key,
                **{
                    key: phase.get(key)
                    for key in ("phase", "round", "pairs", "loss", "accuracy", "kl", "gain")
                },
                "gain_error": phase.get("gain_error"),
                "promoted": int(bool(phase["promoted"])),
                "changed": " ".join(phase.get("changed_controls", ())),
                "seconds": sum(phase["seconds"].values()),
            }


def origin_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a run and origin: who wrote how many programs, how many ran, how many improved, the best."""
    for item in runs:
        for origin in ("agent", "supporter"):
            records = [c for c in item.run.candidates if c.origin == origin]
            scores = [c.score for c in records if c.score is not None]
            if records:
                yield {
                    **item.key,
                    "origin": origin,
                    "candidates": len(records),
                    "valid_share": share(len(scores), len(records)),
                    "distinct": len(distinct_programs(records)),
                    "better_than_parent": sum(c.gain is not None and c.gain > 0 for c in records),
                    "best_training": max(scores, default=None),
                }


def probe_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a probe and kind of hole: what fresh samples were before and after a phase."""
    for item in runs:
        for (phase, moment), probe in item.run.probes.items():
            if moment == MEASURE:
                continue
            for kind, shares in {"all": probe, **probe.get("kinds", {})}.items():
                yield {
                    **item.key,
                    "phase": phase,
                    "moment": moment,
                    "kind": kind,
                    "prompts": shares["prompts"],
                    "samples": shares["samples"],
                    **{
                        f"{name}_{part}": shares[name][part]
                        for name in _SHARES
                        for part in ("value", "error")
                    },
                    "distinct_improving": shares["distinct_improving"],
                }


def measure_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a phase and measure: base model against tuned policy on instances that no phase saw."""
    for item in runs:
        for phase, measures in learned(item.run.probes).items():
            for name, found in measures.items():
                yield {
                    **item.key,
                    "phase": phase,
                    "measure": name,
                    "base": found.base,
                    "tuned": found.tuned,
                    "difference": found.difference.mean,
                    "half_width": found.difference.half_width,
                    "instances": found.instances,
                }


_SHARES = ("valid", "new", "improving")


def collect(plan: Plan, folder: Path) -> dict[str, pd.DataFrame]:
    """What the finished runs have come to, by kind; kinds without rows are left out."""
    runs = finished(plan, folder)
    makers = {
        "runs": run_rows, "rounds": round_rows, "phases": phase_rows, "origins": origin_rows, "probes": probe_rows,
        "measures": measure_rows,
    }  # fmt: skip
    found = {name: pd.DataFrame(list(make(runs))) for name, make in makers.items()}
    return {name: frame for name, frame in found.items() if len(frame)}
