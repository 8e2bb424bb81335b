"""Two pictures of learning: the search with and without tuning, and the agent alone on instances that no phase saw."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.intervals import half_width
from experiments.report import control, learning
from experiments.report.control import read_control
from experiments.report.data import RunData, best_curve
from experiments.report.figures import mark_phases
from experiments.report.pictures import Picture
from experiments.report.style import COLORS, TEXT_WIDTH, plot_style
from trainers.loop.measure import BASE, MEASURE

_TUNED, _FROZEN = COLORS[0], COLORS[1]


def draw_learning(run: RunData) -> Figure | None:
    """The two pictures side by side, as far as the run has them; None if it has neither."""
    frozen = read_control(run)
    measured = max((phase for phase, moment in run.probes if moment == MEASURE), default=BASE)
    panels = [name for name, there in (("search", frozen), ("alone", measured != BASE)) if there]
    if not panels or not best_curve(run):
        return None
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH * len(panels) / 2, 2.8))
        for axes, name in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
            if name == "search" and frozen is not None:
                _search(axes, run, frozen)
            else:
                _alone(axes, run.probes[BASE, MEASURE], run.probes[measured, MEASURE])
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
    search = control.in_words(control.against_frozen(run, frozen)) if frozen and best_curve(frozen) else ""
    return "\n".join(filter(None, (search, learning.in_words(run.probes))))


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
        axes.step(*zip(*best_curve(own), strict=True), where="post", color=color, label=label)
    mark_phases(axes, run)
    several = f", mean of {run.instances} instances" if run.instances > 1 else ""
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
