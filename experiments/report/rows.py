"""Runs as rows of plain numbers: what the paper's tables are made of, for a report and for a study alike."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from experiments.loggers.metrics import improvement
from experiments.report.data import RunData
from trainers.data.measures import distinct_programs

Row = dict[str, Any]

CONTROLS = {"score_threshold": "Threshold", "beta": "β", "epochs": "Epochs", "learning_rate": "Learning rate"}
"""What the strategist may change, and how tables call it."""


def run_row(run: RunData, held_out: bool = True) -> Row:
    """One run: scores (with several instances their mean), shares, phases, and what was done by whom.

    Args:
        run: the run.
        held_out: whether its scores are those of the held-out seeds; else those of the training seeds, which stand in
            while a run is unconfirmed.
    """
    ends = [[_score(run, record, held_out) for record in ends] for ends in run.ends]
    fresh = [c for c in run.candidates if c.round > 0]
    phases = run.tuned_phases
    changed = Counter(name for phase in phases for name in set(phase.get("changed_controls", ())))
    return {
        "candidates": len(fresh),
        "evaluations": sum(c.duplicate_of is None for c in fresh),
        "valid_share": share(sum(c.passed for c in fresh), len(fresh)),
        "distinct": len(distinct_programs(fresh)),
        "improving": sum(unit["improving"] for unit in run.units if "improving" in unit),
        "initial_held_out": _mean([initial for initial, _ in ends]),
        "best_held_out": _mean([best for _, best in ends]),
        "improvement": _mean([improvement(initial, best) for initial, best in ends]),
        "best_training": run.best.score if run.best else None,
        "best_origin": run.best.origin if run.best else "",
        "held_out_seeds": len(run.held_out_scores(run.best)),
        "phases": len(phases),
        "promoted": sum(bool(phase["promoted"]) for phase in phases),
        **{f"changed_{name}": changed[name] for name in CONTROLS},
    }


def share(part: int, whole: int) -> float:
    """A share; 0 of nothing."""
    return part / whole if whole else 0.0


def _score(run: RunData, record: Any, held_out: bool) -> float:
    scores = run.held_out_scores(record) if held_out else [getattr(record, "score", None)]
    return _mean([score for score in scores if score is not None])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
