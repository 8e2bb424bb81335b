"""The report's charts as figures for papers, PDF and PNG."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.experiments.report.comparison import Band, Group, band
from atlas_gym.experiments.report.coverage import coverage
from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.style import (
    COLORS,
    COLUMN_WIDTH,
    KEPT,
    MUTED,
    PROMOTED,
    TEXT_WIDTH,
    plot_style,
    save,
)


def write_figures(groups: Sequence[Group], folder: Path) -> list[Path]:
    """Write every figure these runs have something for; returns the paths."""
    runs = [run for group in groups for run in group.runs if run.best is not None]
    bands = [curve for group in groups if (curve := band(group)) is not None]
    paths: list[Path] = []
    with plot_style():
        if len(runs) > 1 and bands:
            paths += save(_comparison(bands), folder / "comparison")
        for run in runs:
            name = run.name.replace("/", "-")
            paths += save(_scores(run), folder / f"scores-{name}")
            paths += save(_coverage(run), folder / f"coverage-{name}")
            if _measured(run):
                paths += save(_gate(run), folder / f"gate-{name}")
    return paths


def draw_progress(run: RunData, path: Path, title: str) -> None:
    """Write a run's scores over the different programs evaluated as a PNG; phases are lines (dotted: kept)."""
    with plot_style():
        figure = _scores(run)
        figure.set_size_inches(TEXT_WIDTH, 3.8)
        figure.axes[0].set_title(title)
        figure.savefig(path)


def _comparison(bands: Sequence[Band]) -> Figure:
    figure = Figure(figsize=(COLUMN_WIDTH, 2.3))
    axes = figure.subplots()
    for color, curve in zip(COLORS * len(bands), bands, strict=False):
        if curve.low:
            axes.fill_between(curve.evaluations, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
        axes.plot(curve.evaluations, curve.mean, color=color, label=f"{curve.label} (n = {curve.runs})")
    axes.set(xlabel="different programs evaluated", ylabel="best score so far")
    axes.legend(loc="lower right")
    return figure


def _scores(run: RunData) -> Figure:
    figure = Figure(figsize=(COLUMN_WIDTH, 2.3))
    axes = figure.subplots()
    curve = run.census.curve
    low, high = curve[0][1] - (curve[-1][1] - curve[0][1]), curve[-1][1]
    dots = [
        (evaluations, record.score)
        for record, evaluations in zip(run.candidates, run.census.numbers, strict=True)
        if record.score is not None and record.score >= low and record.duplicate_of is None
    ]
    axes.plot(*zip(*dots, strict=True), ".", color=MUTED, markersize=2, alpha=0.5, rasterized=True)
    axes.step(*zip(*curve, strict=True), where="post", color=COLORS[0], label="best so far")
    mark_phases(axes, run)
    if high > low:
        axes.set_ylim(low, high + 0.06 * (high - low))
    axes.set(xlabel="different programs evaluated", ylabel="score")
    return figure


def mark_phases(axes: Axes, run: RunData) -> None:
    """A line where each phase was, over different programs evaluated; dotted where the reference was kept."""
    after = dict(zip((record.round for record in run.candidates), run.census.numbers, strict=True))
    for phase in run.tuned_phases:
        color, style = (PROMOTED, "-") if phase["promoted"] else (KEPT, ":")
        axes.axvline(after.get(phase["round"], 0), color=color, linestyle=style, linewidth=0.9)


def _gate(run: RunData) -> Figure:
    figure = Figure(figsize=(COLUMN_WIDTH, 2.3))
    axes = figure.subplots()
    phases = _measured(run)
    decision = next((phase["decision"] for phase in reversed(phases) if phase.get("decision")), None)
    for phase in phases:
        promoted = phase["promoted"]
        color = PROMOTED if promoted else KEPT
        axes.errorbar(
            phase["kl"], phase["gain"], yerr=phase.get("gain_error") or 0.0, fmt="o", color=color,
            markerfacecolor=color if promoted else "none", markersize=5, linewidth=0.8,
        )  # fmt: skip
        axes.annotate(str(phase["phase"]), (phase["kl"], phase["gain"]), (5, 3), textcoords="offset points")
    if decision is not None:
        _trust_region(axes, decision["max_kl"], decision["min_gain"])
    axes.set(xlabel="KL to the reference (nats per token)", ylabel="gain over the reference")
    return figure


def _trust_region(axes: Axes, budget: float, floor: float) -> None:
    low, high = axes.get_ylim()
    low, high = min(low, floor), max(high, floor)
    right = max(axes.get_xlim()[1], 1.1 * budget)
    axes.fill_between([0, budget], floor, high, color=PROMOTED, alpha=0.1, linewidth=0, zorder=0)
    axes.set(xlim=(0, right), ylim=(low, high))


def _coverage(run: RunData) -> Figure:
    figure = Figure(figsize=(TEXT_WIDTH, 2.2))
    found = coverage(run)
    panels = (("best", "best score"), ("programs", "different programs"), ("clusters", "clusters reached"))
    for axes, (key, label) in zip(figure.subplots(1, 3), panels, strict=True):
        for island, values in zip(found["islands"], found[key], strict=True):
            axes.plot(found["rounds"], values, label=f"island {island}")
        axes.set(xlabel="round", ylabel=label)
    axes.legend(loc="lower right", fontsize=5)
    return figure


def _measured(run: RunData) -> list:
    return [phase for phase in run.tuned_phases if phase["gain"] is not None and phase["kl"] is not None]
