"""What tuning changed: the search with and without it, and the base model against tuned policies on instances that no
phase saw; as a table, in words that the data choose, and as a figure of two pictures."""

import base64
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.experiments.report.data import RunData, read_run
from atlas_gym.experiments.report.figures import mark_phases
from atlas_gym.experiments.report.pictures import Picture
from atlas_gym.experiments.report.style import COLORS, TEXT_WIDTH, plot_style
from atlas_gym.experiments.report.table_formats import Table, table
from atlas_gym.intervals import Interval, half_width, mean_interval
from atlas_gym.trainers.data.comparison import Comparison
from atlas_gym.trainers.loop.control import FOLDER
from atlas_gym.trainers.loop.exam import BASE, learned

Exams = Mapping[int, Mapping[str, Any]]

_MEANINGS = {
    "validity": "valid, of all samples",
    "quality": "improving by more than {0}, of valid and new",
    "yield": "distinct improving programs per sample, by more than {0}",
    "best of": "best gain of {0} samples",
}
_TUNED, _FROZEN = COLORS[0], COLORS[1]


def learning_table(runs: Iterable[RunData]) -> Table:
    """Base model against tuned policies on instances that no phase saw: one row a run, phase and measure."""
    rows = (
        {"Run": run.name, "After phase": str(phase), "Measure": meaning(name), **_figures(found)}
        for run in runs
        for phase, measures in learned(run.exams).items()
        for name, found in measures.items()
    )
    note = (
        "The same questions to the base model and to the policy after the phase, under the same seeds; differences "
        "are paired by question, intervals are over instances. Gains are in units of score."
    )
    return table("learning", "What tuning changed, on instances that no phase saw", rows, note)


def meaning(name: str) -> str:
    """A measure of `trainers.data.comparison` in words."""
    kind, _, number = name.rpartition(" ")
    return _MEANINGS[kind or name].format(number)


def verdict(found: Comparison) -> str:
    """What the interval says of a difference, and what it could have said."""
    if not math.isfinite(found.difference.half_width):
        return "no interval: one instance, or nothing to count"
    unsure = f"cannot be told apart (4 times of 5 it could at a difference of {found.detectable:.2g})"
    return found.difference.in_words("higher", "lower", unsure)


def alone_in_words(exams: Exams) -> str:
    """What the last phase's measurement says, in a few sentences; empty without one."""
    measured = learned(exams)
    if not measured:
        return ""
    phase, measures = max(measured.items())
    asked = exams[BASE]["answers"]
    instances = len({answer["instance"] for answer in asked})
    parts = [
        f"After phase {phase}, on {instances} instances that no phase saw ({len(asked)} prompts, "
        f"{len(asked[0]['samples'])} samples each):"
    ]
    for word in ("higher", "lower"):
        own = {meaning(name): found for name, found in measures.items() if verdict(found) == word}
        if own:
            named = (f"{name} ({_value(found.base)} → {_value(found.tuned)})" for name, found in own.items())
            parts.append(f"{word}: {', '.join(named)};")
    unsure = [meaning(name) for name, found in measures.items() if verdict(found) not in ("higher", "lower")]
    if unsure:
        parts.append(f"not to be told from the base model: {', '.join(unsure)};")
    return " ".join(parts)[:-1] + "."


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


def read_control(run: RunData) -> RunData | None:
    """The run's frozen control as far as it has come, if it has one."""
    folder = run.folder / FOLDER
    return read_run(folder) if (folder / "run.sqlite").is_file() else None


def search_in_words(run: RunData, control: RunData) -> str:
    """How far a run and its frozen control came, paired by instance, and with how many different programs, in a few
    sentences; both have scored programs."""
    tuned, frozen, goal = run.census.bests, control.census.bests, control.census.curve[-1][1]
    gains = [tuned[instance] - frozen[instance] for instance in sorted(tuned.keys() & frozen.keys())]
    difference = mean_interval(gains)
    text = (
        f"Best score, tuned {run.census.curve[-1][1]:.4f} against frozen {goal:.4f}: "
        f"difference {difference.mean:+.4f}"
    )
    text += _explained(difference, len(gains))
    share = _until(run, goal) / _until(control, goal)
    if math.isinf(share):
        return f"{text}. The tuned run never reached the frozen run's last score."
    return f"{text}. The tuned run reached the frozen run's last score with {share:.2f} of its programs."


def _explained(difference: Interval, instances: int) -> str:
    if not math.isfinite(difference.half_width):
        return " (one instance: no interval)"
    found = difference.in_words(
        "tuning found better programs", "tuning found worse programs", "which chance explains"
    )
    return f" ± {difference.half_width:.4f} (95 %, {instances} instances), {found}"


def _until(run: RunData, goal: float) -> float:
    """Different programs until a run was as good as that; infinite if it never was."""
    return next((float(number) for number, score in run.census.curve if score >= goal), math.inf)


def draw_learning(run: RunData) -> Figure | None:
    """The two pictures side by side, as far as the run has them; None if it has neither."""
    frozen = read_control(run)
    measured = max(run.exams, default=BASE)
    panels: list[Callable[[Axes], None]] = []
    if frozen:
        panels.append(partial(_search, run=run, frozen=frozen))
    if measured != BASE:
        panels.append(partial(_alone, base=run.exams[BASE], tuned=run.exams[measured]))
    if not panels or not run.census.curve:
        return None
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH * len(panels) / 2, 2.8))
        for axes, draw in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
            draw(axes)
        return figure


def learning_pictures(run: RunData) -> list[Picture]:
    """The pictures for the report, with what they show in words; empty without any."""
    figure = draw_learning(run)
    if figure is None:
        return []
    with plot_style(), io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=110)
        png = base64.b64encode(file.getvalue()).decode("ascii")
    return [Picture("What tuning changed", png, said(run))]


def said(run: RunData) -> str:
    """Search and measure in words; empty without either."""
    frozen = read_control(run)
    search = search_in_words(run, frozen) if frozen and frozen.census.curve else ""
    return "\n".join(filter(None, (search, alone_in_words(run.exams))))


def save_learning(run: RunData, path: Path) -> list[Path]:
    """Write the pictures as a PNG; returns the paths written."""
    figure = draw_learning(run)
    if figure is None:
        return []
    with plot_style():
        figure.savefig(path)
    return [path]


def _search(axes: Axes, run: RunData, frozen: RunData) -> None:
    for own, color, label in ((frozen, _FROZEN, "frozen"), (run, _TUNED, "tuned")):
        axes.step(*zip(*own.census.curve, strict=True), where="post", color=color, label=label)
    mark_phases(axes, run)
    several = f", mean of {run.census.instances} instances" if run.census.instances > 1 else ""
    axes.set(xlabel="different programs evaluated", ylabel=f"best score so far{several}", title="The search")
    axes.legend(loc="lower right")


def _alone(axes: Axes, base: Mapping[str, Any], tuned: Mapping[str, Any]) -> None:
    for result, color, label in ((base, _FROZEN, "base model"), (tuned, _TUNED, "tuned")):
        gains = best_gains(result["answers"])
        numbers = np.arange(1, gains.shape[1] + 1)
        mean, spread = gains.mean(axis=0), half_width(gains)
        axes.plot(numbers, mean, color=color, label=label)
        axes.fill_between(numbers, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    axes.set(xlabel="samples", ylabel="best gain over the parent", title="The agent alone, unseen instances")
    axes.legend(loc="upper left")


def best_gains(answers: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """(instances, n): the best gain among the first 1 … n samples of a question, 0 if none improves, mean over an
    instance's questions."""
    gains = [
        [max(0.0, s["gain"] or 0.0) if s["passed"] and not s["is_copy"] else 0.0 for s in answer["samples"]]
        for answer in answers
    ]
    shortest = min(map(len, gains))
    best = np.maximum.accumulate([own[:shortest] for own in gains], axis=1)
    numbers = np.array([answer["instance"] for answer in answers])
    return np.array([best[numbers == number].mean(axis=0) for number in dict.fromkeys(numbers.tolist())])
