"""Pictures of runs: the search, what tuning changed, and runs against each other."""

import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from atlas_gym.agents.population.candidate import WRITERS
from atlas_gym.experiments.report.comparison import Group, band
from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.style import (
    COLORS,
    DOTS,
    KEPT,
    PROMOTED,
    TEXT_WIDTH,
    no_formula,
    plot_style,
)
from atlas_gym.trainers.loop.control import UNSEEN_BASE, UNSEEN_TUNED
from atlas_gym.trainers.store.folder import write_anew


def score_limits(runs: Iterable[RunData]) -> tuple[float, float] | None:
    """One axis for the scores of all these runs; None if none has gained anything.

    Scores far below the rest would flatten everything else: the lower end is the start less the whole gain.
    """
    runs = [run for run in runs if run.curve]
    ends = [float(run.candidates.score.max()) for run in runs]
    ends += [own.curve[-1][1] for run in runs for own in run.beside.values()]
    ends += [run.by_hand for run in runs if run.by_hand is not None]
    low, high = min((run.curve[0][1] for run in runs), default=0.0), max(ends, default=0.0)
    return (2 * low - high, high + 0.06 * (high - low)) if high > low else None


def draw_scores(run: RunData, title: str = "", limits: tuple[float, float] | None = None) -> Figure:
    """Scores and the best score so far over different programs evaluated, beside those of its controls, the start and
    the best of the task's experts. Upright lines are phases, dotted where the reference was kept."""
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 3.8))
        axes = figure.subplots()
        rows = run.candidates.assign(number=run.evaluated)
        rows = rows[rows.new & rows.score.notna()]
        for origin, color in zip(WRITERS, DOTS, strict=True):
            if len(own := rows[rows.origin == origin]):
                axes.plot(own.number, own.score, ".", color=color, label=origin, markersize=3, alpha=0.6)
        for (name, own), color in zip(run.beside.items(), COLORS[1:], strict=False):
            axes.step(*zip(*own.curve, strict=True), where="post", color=color, linewidth=1.0, label=name)
        axes.step(*zip(*run.curve, strict=True), where="post", color=COLORS[0], label="this run")
        explored = run.candidates.id >= 0  # what teaches comes behind its round, in the phase
        after = run.evaluated[explored].groupby(run.candidates["round"][explored]).max()
        for phase in run.tuned_phases:
            color, line = (PROMOTED, "-") if phase["promoted"] else (KEPT, ":")
            axes.axvline(after.get(phase["round"], 0), color=color, linestyle=line, linewidth=0.9)
        for label, score, dash in (("start", run.curve[0][1], ":"), ("best by hand", run.by_hand, "--")):
            if score is not None:
                axes.axhline(score, color="black", linestyle=dash, linewidth=0.9, label=label)
        several = f", mean of {run.instances} instances" if run.instances > 1 else ""
        axes.set(xlabel="different programs evaluated", ylabel=f"score{several}")
        axes.set_xlim(left=0)
        figure.legend(loc="outside lower center", ncols=4)
        axes.set_ylim(limits or score_limits([run]))
        axes.set_title(no_formula(title))
        return figure


def draw_learning(run: RunData) -> Figure | None:
    """The searches of the model alone, tuned and not, on unseen instances, on an axis as long as that of `draw_scores`;
    None if there are none."""
    searches = {name: run.controls[name] for name in (UNSEEN_BASE, UNSEEN_TUNED) if name in run.controls}
    if not searches:
        return None
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 2.8))
        axes = figure.subplots()
        for (name, own), color in zip(searches.items(), (COLORS[1], COLORS[0]), strict=False):
            label = "base model" if name == UNSEEN_BASE else "tuned"
            axes.step(*zip(*own.curve, strict=True), where="post", color=color, label=label)
        if run.curve and (limits := score_limits([run])):  # a gain is as high as in the picture of the search
            shift = min(own.curve[0][1] for own in searches.values()) - run.curve[0][1]
            axes.set_ylim(limits[0] + shift, limits[1] + shift)
        axes.set(xlabel="different programs evaluated", ylabel="mean best score so far")
        axes.legend(loc="lower right")
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
                axes.fill_between(
                    found.evaluations, found.low, found.high, color=color, alpha=0.15, linewidth=0
                )
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
