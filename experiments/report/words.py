"""A run beside its controls, in sentences that the intervals choose: who found better programs, and what tuning adds
on instances that no phase saw."""

import math

import pandas as pd

from atlas_gym.experiments.report.data import UNSEEN, RunData
from atlas_gym.intervals import mean_interval
from atlas_gym.trainers.data.comparison import Comparison
from atlas_gym.trainers.loop.exam import learned

_MEANINGS = {
    "validity": "valid, of all samples",
    "quality": "improving by more than {0}, of valid and new",
    "yield": "distinct improving programs per sample, by more than {0}",
    "best of": "best gain of {0} samples",
}


def counted(run: RunData) -> str:
    """How many programs a run tried, as its console and its report say it."""
    drawn, tested, evaluated, taught = run.counts.values()
    teach = f", {taught} of them to teach" if taught else ""
    return f"{drawn} programs drawn, {tested} smoke-tested, {evaluated} evaluated{teach}"


def said(run: RunData) -> str:
    """A line each for the search and for what tuning adds, as far as there are controls."""
    lines = []
    for name, one, other in run.compared:
        if name == UNSEEN:
            lines.append(
                f"The agent alone on instances that no phase saw, {_seeds(one)}: tuned {one.found.mean():.4f}, base "
                f"model {other.found.mean():.4f}; tuned {_difference(one, other)}."
            )
            continue
        if not lines:
            lines.append(f"Best program of each instance, {_seeds(run)}: {run.found.mean():.4f}.")
        lines.append(f"{name}: {other.found.mean():.4f}; the run {_difference(run, other)}.")
    return "\n".join(lines)


def _seeds(run: RunData) -> str:
    return "held-out seeds" if run.confirmed else "training seeds"


def _difference(run: RunData, other: RunData) -> str:
    """How far a run lies ahead of another, paired by instance."""
    gains = (run.found - other.found).dropna()
    found = mean_interval(gains)
    if not math.isfinite(found.half_width):
        return f"differs by {found.mean:+.4f} (one instance: no interval)"
    word = found.in_words("is ahead", "is behind", "may differ by chance")
    return f"{word}: {found.mean:+.4f} ± {found.half_width:.4f} (95 %, {len(gains)} instances)"


def exam_table(run: RunData) -> pd.DataFrame:
    """Base model against tuned policies: a row per phase and measure."""
    return pd.DataFrame(
        {
            "After phase": phase, "Measure": meaning(name), "Base": _value(found.base), "Tuned": _value(found.tuned),
            "Difference, 95 %": f"{found.difference.mean:+.3f} ± {_value(found.difference.half_width)}",
            "In words": verdict(found),
        }
        for phase, measures in learned(run.exams).items()
        for name, found in measures.items()
    )  # fmt: skip


def meaning(name: str) -> str:
    """A measure of `trainers.data.comparison` in words."""
    kind, _, number = name.rpartition(" ")
    return _MEANINGS[kind or name].format(number)


def verdict(found: Comparison) -> str:
    """A difference in words, chosen by its interval."""
    if not math.isfinite(found.difference.half_width):
        return "no interval: one instance, or nothing to count"
    unsure = f"cannot be told apart (4 times of 5 it could at a difference of {found.detectable:.2g})"
    return found.difference.in_words("higher", "lower", unsure)


def _value(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "–"
