"""A study's runs as rows of plain numbers, one CSV a kind: what every table and figure is made of."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.report.data import RunData, read_run
from experiments.spreadsheets import harmless
from experiments.studies.plan import Plan, PlannedRun
from experiments.studies.runner import DONE

Row = dict[str, Any]

CONTROLS = ("score_threshold", "beta", "epochs", "learning_rate")


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
    """One row a run: scores, shares, phases, and what was done by whom."""
    for item in runs:
        run = item.run
        initial, best = run.held_out_scores(run.initial), run.held_out_scores(run.best)
        fresh = [c for c in run.candidates if c.round > 0]
        phases = run.tuned_phases
        yield {
            **item.key,
            "candidates": len(fresh),
            "evaluations": sum(c.duplicate_of is None for c in fresh),
            "valid_share": _share(sum(c.passed for c in fresh), len(fresh)),
            "distinct": len({c.program_key for c in fresh if c.passed and not c.is_copy}),
            "improving": sum(unit["improving"] for unit in run.units if "improving" in unit),
            "initial_held_out": _mean(initial),
            "best_held_out": _mean(best),
            "improvement": 1 - _mean(best) / _mean(initial),
            "best_training": run.best.score if run.best else None,
            "best_origin": run.best.origin if run.best else "",
            "held_out_seeds": len(best),
            "phases": len(phases),
            "promoted": sum(bool(phase["promoted"]) for phase in phases),
            **{f"changed_{name}": _times(phases, name) for name in CONTROLS},
        }


def _times(phases: Sequence[Mapping[str, Any]], control: str) -> int:
    return sum(control in phase.get("changed_controls", ()) for phase in phases)


def round_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a round: best score so far, and the shares of valid and of new, different programs."""
    for item in runs:
        best, evaluations = -float("inf"), 0
        for round_ in range(item.run.rounds + 1):
            records = [c for c in item.run.candidates if c.round == round_]
            best = max([best, *(c.score for c in records if c.score is not None)])
            evaluations += sum(c.duplicate_of is None for c in records)
            new = {c.program_key for c in records if c.passed and not c.is_copy and c.duplicate_of is None}
            yield {
                **item.key,
                "round": round_,
                "evaluations": evaluations,
                "best_training": best,
                "valid_share": _share(sum(c.passed for c in records), len(records)),
                "distinct_share": _share(len(new), len(records)),
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
                    "valid_share": _share(len(scores), len(records)),
                    "distinct": len({c.program_key for c in records if c.passed and not c.is_copy}),
                    "better_than_parent": sum(c.gain is not None and c.gain > 0 for c in records),
                    "best_training": max(scores, default=None),
                }


def probe_rows(runs: Sequence[Finished]) -> Iterator[Row]:
    """One row a probe and kind of hole: what fresh samples were before and after a phase."""
    for item in runs:
        for (phase, moment), probe in item.run.probes.items():
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


_SHARES = ("valid", "new", "improving")


def write_csv(rows: Sequence[Row], path: Path) -> Path:
    """Rows with equal columns as CSV; numbers to seven digits."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: f"{v:.7g}" if isinstance(v, float) else harmless(v) for k, v in row.items()} for row in rows
        )
    return path


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
