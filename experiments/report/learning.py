"""What tuning changed, as a table and in words that the data choose: base model against tuned policies."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from experiments.report.data import RunData
from trainers.data.comparison import Comparison
from trainers.loop.measure import BASE, MEASURE, learned

Probes = Mapping[tuple[int, str], Mapping[str, Any]]

_MEANINGS = {
    "validity": "valid, of all samples",
    "quality": "improving by more than {0}, of valid and new",
    "yield": "distinct improving programs per sample, by more than {0}",
    "best of": "best gain of {0} samples",
}


def rows(runs: Iterable[RunData]) -> Iterator[dict[str, str]]:
    """One row a run, phase and measure."""
    for run in runs:
        for phase, measures in learned(run.probes).items():
            for name, found in measures.items():
                yield {
                    "Run": run.name,
                    "After phase": str(phase),
                    "Measure": meaning(name),
                    **_figures(found),
                }


NOTE = (
    "The same questions to the base model and to the policy after the phase, under the same seeds; differences are "
    "paired by question, intervals are over instances. Gains are in units of score."
)


def meaning(name: str) -> str:
    """A measure of `trainers.data.comparison` in words."""
    kind, _, number = name.rpartition(" ")
    return _MEANINGS[kind or name].format(number)


def verdict(found: Comparison) -> str:
    """What the interval says of a difference, and what it could have said."""
    if not math.isfinite(found.difference.half_width):
        return "no interval: one instance, or nothing to count"
    if found.difference.low > 0:
        return "higher"
    if found.difference.high < 0:
        return "lower"
    return f"cannot be told apart (4 times of 5 it could at a difference of {found.detectable:.2g})"


def in_words(probes: Probes) -> str:
    """What the last phase's measurement says, in a few sentences; empty without one."""
    measured = learned(probes)
    if not measured:
        return ""
    phase, measures = max(measured.items())
    asked = probes[BASE, MEASURE]["answers"]
    instances = len({answer["instance"] for answer in asked})
    parts = [
        f"After phase {phase}, on {instances} instances that no phase saw ({len(asked)} prompts, "
        f"{len(asked[0]['samples'])} samples each):"
    ]
    for word, own in (("higher", _named(measures, "higher")), ("lower", _named(measures, "lower"))):
        if own:
            parts.append(f"{word}: {', '.join(own)};")
    unsure = [meaning(name) for name, found in measures.items() if verdict(found) not in ("higher", "lower")]
    if unsure:
        parts.append(f"not to be told from the base model: {', '.join(unsure)};")
    return " ".join(parts)[:-1] + "."


def _named(measures: Mapping[str, Comparison], word: str) -> list[str]:
    return [
        f"{meaning(name)} ({_value(found.base)} → {_value(found.tuned)})"
        for name, found in measures.items()
        if verdict(found) == word
    ]


def _figures(found: Comparison) -> dict[str, str]:
    difference = found.difference
    spread = f" ± {difference.half_width:.3f}" if math.isfinite(difference.half_width) else ""
    return {
        "Base": _value(found.base), "Tuned": _value(found.tuned),
        "Difference, 95 %": f"{difference.mean:+.3f}{spread}",
        "Ratio": f"{found.ratio:.2f}" if math.isfinite(found.ratio) else "–", "In words": verdict(found),
    }  # fmt: skip


def _value(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "–"
