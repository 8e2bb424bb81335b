"""What tuning changed, in sentences that the intervals choose: the search against its frozen control, and the base
model against tuned policies on instances that no phase saw."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from atlas_gym.experiments.report.data import RunData
from atlas_gym.intervals import mean_interval
from atlas_gym.trainers.data.comparison import Comparison
from atlas_gym.trainers.loop.exam import BASE, learned

_MEANINGS = {
    "validity": "valid, of all samples",
    "quality": "improving by more than {0}, of valid and new",
    "yield": "distinct improving programs per sample, by more than {0}",
    "best of": "best gain of {0} samples",
}


def said(run: RunData) -> str:
    """A line each for the search and the exam, as far as there are any."""
    control = run.control
    search = search_in_words(run, control) if control and control.curve and run.curve else ""
    return "\n".join(filter(None, (search, exam_in_words(run.exams))))


def search_in_words(run: RunData, control: RunData) -> str:
    """How far a run and its frozen control came, paired by instance, and after how many different programs."""
    goal = control.curve[-1][1]
    gains = (run.bests - control.bests).dropna()
    difference = mean_interval(gains)
    text = f"Best score, tuned {run.curve[-1][1]:.4f} against frozen {goal:.4f}: difference {difference.mean:+.4f}"
    if math.isfinite(difference.half_width):
        meanings = "tuning found better programs", "tuning found worse programs", "which chance explains"
        found = difference.in_words(*meanings)
        text += f" ± {difference.half_width:.4f} (95 %, {len(gains)} instances), {found}"
    else:
        text += " (one instance: no interval)"
    curves = run.curve, control.curve
    tuned, frozen = (next((float(n) for n, score in curve if score >= goal), math.inf) for curve in curves)
    if math.isinf(tuned):
        return f"{text}. The tuned run never reached the frozen run's last score."
    return f"{text}. The tuned run reached the frozen run's last score with {tuned / frozen:.2f} of its programs."


def exam_in_words(exams: Mapping[int, Mapping[str, Any]]) -> str:
    """The exam after the last phase in a sentence; empty without one."""
    examined = learned(exams)
    if not examined:
        return ""
    phase, measures = max(examined.items())
    asked = exams[BASE]["answers"]
    instances = len({answer["instance"] for answer in asked})
    parts = [
        f"After phase {phase}, on {instances} instances that no phase saw ({len(asked)} prompts, "
        f"{len(asked[0]['samples'])} samples each):"
    ]
    for word in ("higher", "lower"):
        named = [
            f"{meaning(name)} ({_value(found.base)} → {_value(found.tuned)})"
            for name, found in measures.items()
            if verdict(found) == word
        ]
        parts += [f"{word}: {', '.join(named)};"] if named else []
    unsure = [meaning(name) for name, found in measures.items() if verdict(found) not in ("higher", "lower")]
    parts += [f"not to be told from the base model: {', '.join(unsure)};"] if unsure else []
    return " ".join(parts)[:-1] + "."


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
