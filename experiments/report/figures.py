"""Pictures of runs: the search, what tuning changed, and runs against each other."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.experiments.report.comparison import Group, band
from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.style import (
    COLORS,
    KEPT,
    MUTED,
    PROMOTED,
    TEXT_WIDTH,
    no_formula,
    plot_style,
)
from atlas_gym.intervals import half_width
from atlas_gym.trainers.loop.control import UNSEEN_BASE, UNSEEN_TUNED
from atlas_gym.trainers.loop.exam import BASE
from atlas_gym.trainers.store.folder import write_anew

_TUNED, _FROZEN = COLORS[0], COLORS[1]
_BAND: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}


def draw_scores(run: RunData, title: str = "") -> Figure:
    """Scores and the best score so far over different programs evaluated, beside those of its controls.

    Lines are phases, dotted where the reference was kept. Scores far below the rest would flatten everything else: the
    lower end of the axis is the first point of the curve less the whole gain.
    """
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 3.8))
        axes = figure.subplots()
        rows = run.candidates.assign(number=run.evaluated)
        rows = rows[rows.new & rows.score.notna()]
        taught = rows.origin == "supporter"
        dots: dict[str, Any] = {"markersize": 3, "alpha": 0.5, "rasterized": True}
        for color, label, own in (
            (MUTED, "research agent", rows[~taught]),
            (KEPT, "supporter", rows[taught]),
        ):
            if len(own):
                axes.plot(own.number, own.score, ".", color=color, label=label, **dots)
        _draw_search(axes, run)
        low, high = run.curve[0][1], run.curve[-1][1]
        if high > low:
            axes.set_ylim(2 * low - high, high + 0.06 * (high - low))
        axes.set_title(no_formula(title))
        return figure


def draw_learning(run: RunData) -> Figure | None:
    """Left the search beside its controls, right the model alone on unseen instances (its searches, or else the exam),
    as far as the run has them; None if it has neither."""
    searches = {name: run.controls[name] for name in (UNSEEN_BASE, UNSEEN_TUNED) if name in run.controls}
    beside = run.controls.keys() - searches
    examined = max(run.exams, default=BASE)
    count = bool(beside) + bool(searches or examined != BASE)
    if not count or not run.curve:
        return None
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH * count / 2, 2.8))
        panels = list(np.atleast_1d(figure.subplots(1, count)))
        if beside:
            _draw_search(panels.pop(0), run)
        if searches:
            axes = panels.pop(0)
            for (name, own), color in zip(searches.items(), (_FROZEN, _TUNED), strict=False):
                label = "base model" if name == UNSEEN_BASE else "tuned"
                axes.step(*zip(*own.curve, strict=True), where="post", color=color, label=label)
            axes.set(xlabel="different programs evaluated", title="The model alone, unseen instances")
            axes.legend(loc="lower right")
        elif examined != BASE:
            _draw_exam(panels.pop(0), run.exams[BASE], run.exams[examined])
        return figure


def draw_comparison(groups: Sequence[Group]) -> Figure:
    """Best score so far of every group of runs, with bands."""
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 3.4))
        axes = figure.subplots()
        for number, group in enumerate(groups):
            if (found := band(group)) is not None:
                color = COLORS[number % len(COLORS)]
                label = no_formula(f"{group.label[:80]}: {found.meaning}")
                axes.plot(found.evaluations, found.mean, color=color, label=label)
                axes.fill_between(found.evaluations, found.low, found.high, color=color, **_BAND)
        axes.set(xlabel="different programs evaluated", ylabel="best score so far")
        if axes.lines:
            axes.legend(loc="lower right")
        return figure


def as_png(figure: Figure, path: Path | None = None) -> Markup:
    """The picture as a data URL; with a path, it is written there, too."""
    with plot_style(), io.BytesIO() as file:
        figure.savefig(file, format="png")
        if path is not None:
            write_anew(path, file.getvalue())
        return Markup("data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii"))


def _draw_search(axes: Axes, run: RunData) -> None:
    others = ((name, own) for name, own in run.controls.items() if name not in (UNSEEN_TUNED, UNSEEN_BASE))
    for (name, own), color in zip(others, COLORS[1:], strict=False):
        axes.step(*zip(*own.curve, strict=True), where="post", color=color, linewidth=1.0, label=name)
    axes.step(*zip(*run.curve, strict=True), where="post", color=_TUNED, label="this run")
    explored = run.candidates.id >= 0  # what teaches comes behind its round, in the phase
    after = run.evaluated[explored].groupby(run.candidates["round"][explored]).max()
    for phase in run.tuned_phases:
        color, line = (PROMOTED, "-") if phase["promoted"] else (KEPT, ":")
        axes.axvline(after.get(phase["round"], 0), color=color, linestyle=line, linewidth=0.9)
    several = f", mean of {run.instances} instances" if run.instances > 1 else ""
    axes.set(xlabel="different programs evaluated", ylabel=f"score{several}")
    axes.legend(loc="lower right")


def _draw_exam(axes: Axes, base: Mapping[str, Any], tuned: Mapping[str, Any]) -> None:
    for result, color, label in ((base, _FROZEN, "base model"), (tuned, _TUNED, "tuned")):
        gains = best_gains(result["answers"])
        numbers = np.arange(1, gains.shape[1] + 1)
        mean, spread = gains.mean(axis=0), half_width(gains)
        axes.plot(numbers, mean, color=color, label=label)
        axes.fill_between(numbers, mean - spread, mean + spread, color=color, **_BAND)
    axes.set(xlabel="samples", ylabel="best gain over the parent", title="The model alone, unseen instances")
    axes.legend(loc="upper left")


def best_gains(answers: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """(instances, n): the best gain among the first 1 … n samples of a prompt, 0 if none improves, mean over an
    instance's prompts."""
    gains = [
        [max(0.0, s["gain"] or 0.0) if s["passed"] and not s["is_copy"] else 0.0 for s in answer["samples"]]
        for answer in answers
    ]
    shortest = min(map(len, gains))
    best = np.maximum.accumulate([own[:shortest] for own in gains], axis=1)
    numbers = np.array([answer["instance"] for answer in answers])
    return np.array([best[numbers == number].mean(axis=0) for number in dict.fromkeys(numbers.tolist())])
