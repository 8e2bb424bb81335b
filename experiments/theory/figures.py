"""The study's figures, in one style: one colour per method, log-log where a slope is the point."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.experiments.report.style import plot_style
from atlas_gym.experiments.theory.runner import Results, slope
from atlas_gym.experiments.theory.settings import PHASES_PER_WINDOW
from atlas_gym.intervals import mean_interval

COLOURS = {
    "stale": "tab:cyan",
    "gate": "tab:green",
    "averaged": "tab:orange",
    "timed": "tab:purple",
    "EvoDPO": "tab:red",
    "DPO": "tab:blue",
}
"""By a word in a method's name; the first that is in it counts."""


def write_figures(results: Results, folder: Path, command: str) -> None:
    """Draw every figure into `folder`, named as its function; each carries the command that made it."""
    for draw in (regret_over_horizon, decomposition, slopes, gate, floor_and_beta, lemmas):
        with plot_style(), plt.rc_context({"legend.handlelength": 3.0}):
            figure = draw(results)
            figure.text(0.995, 0.005, command, ha="right", va="bottom", fontsize=5.5, color="0.5")
            figure.savefig(folder / f"{draw.__name__}.png", bbox_inches="tight", metadata={"Software": None})
            plt.close(figure)


def colour(name: str) -> str:
    """The colour of a method, found by the word in its name."""
    return next((hue for word, hue in COLOURS.items() if word in name), "0.4")


def regret_over_horizon(results: Results) -> Figure:
    """Regret over the horizon at β = 1 with its slopes, and its rate at longer horizons."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    for setting, cells in results.group("main"):
        label = f"{setting.name}: {slope(cells):.2f}"
        _curve(left, [(t, cell.regret) for t, cell in cells.items()], label, colour(setting.name))
    left.set(ylabel="R_T", title="rotation by 4π, β = 1, floor 0.05, and slopes")
    for setting, cells in results.group("long"):
        style = "--" if "500/T" in setting.name else "-"
        rates = [(t, cell.regret / t) for t, cell in cells.items()]
        _curve(right, rates, setting.name, colour(setting.name), style)
    right.set(ylabel="R_T / T", title="longer horizons")
    for axes, group in ((left, "main"), (right, "long")):
        horizons = list(results.group(group)[0][1])
        axes.set(xscale="log", yscale="log", xlabel="T")
        axes.set_xticks(horizons, [f"{t:,}" for t in horizons])
        axes.minorticks_off()
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15))
    left.set_yticks([500, 1000, 2000, 4000, 8000], ["500", "1,000", "2,000", "4,000", "8,000"])
    right.set_yticks([0.1, 0.2, 0.4, 0.8], ["0.1", "0.2", "0.4", "0.8"])
    return figure


def _curve(axes: Axes, points: list[tuple], label: str, hue: str, style: str = "-") -> None:
    """A line through the means with bars for the 95 % intervals; of each point x and its values."""
    found = [mean_interval(values) for _, values in points]
    x, means, halves = [x for x, _ in points], [f.mean for f in found], [f.half_width for f in found]
    axes.errorbar(x, means, yerr=halves, label=label, color=hue, fmt=f"o{style}", markersize=4, capsize=2)


def decomposition(results: Results) -> Figure:
    """Cumulative regret of every method, and its two parts (Eq. 13)."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4), width_ratios=(1.1, 1))
    horizon = results.plan.horizons[-1]
    rows = [(setting.name, cells[horizon]) for setting, cells in results.group("main")]
    for name, cell in rows:
        curve = np.mean(list(cell.curve), axis=0)
        left.plot(np.linspace(0, horizon, len(curve)), curve, label=name, color=colour(name))
    left.set(xlabel="round t", ylabel="cumulative regret", title=f"T = {horizon}")
    left.legend()
    names = [name for name, _ in rows]
    learning, bias = (np.array([cell[part].mean() for _, cell in rows]) for part in ("learning", "bias"))
    right.barh(names, bias, color=[colour(n) for n in names])
    # A negative learning error stands left of 0; a positive one is stacked on the bias.
    right.barh(
        names, learning, left=np.where(learning > 0, bias, 0), color="0.6", label="learning error (grey)"
    )
    right.set(xlabel="R_T: coloured reference bias + grey learning error", title="Eq. 13")
    right.invert_yaxis()
    return figure


def slopes(results: Results) -> Figure:
    """The slope of every setting."""
    rows = [row for group in ("main", "control", "ablation", "drift") for row in results.group(group)]
    figure, axes = plt.subplots(figsize=(6.5, 0.2 * len(rows) + 1))
    for height, (setting, cells) in enumerate(rows):
        s = slope(cells)
        axes.errorbar(s.mean, height, xerr=s.half_width, fmt="o", capsize=2, color=colour(setting.name))
    axes.axvline(1.0, color="0.3", linewidth=0.8)
    axes.axvline(0.75, color="0.3", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [setting.name for setting, _ in rows], fontsize=7)
    axes.set(
        xlabel="log-log slope of R_T over T, 95 % interval over seeds", title="1 is linear in T; dotted 0.75"
    )
    axes.invert_yaxis()
    return figure


def gate(results: Results) -> Figure:
    """Regret and acceptance over the gate's KL budget and over its tolerance."""
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.3))
    labels = {"sweep δ_H": "KL budget δ_H, nats (ε_s = 0)", "sweep ε_s": "score tolerance ε_s (no KL budget)"}
    at, main = results.plan.sweep_horizon, {s.name: cells for s, cells in results.group("main")}
    beside = {"DPO": "DPO, fixed uniform reference", "EvoDPO": "EvoDPO, reference every phase"}
    for axes, (group, label) in zip(panels, labels.items(), strict=True):
        points = [(setting.value, cells[at]) for setting, cells in results.group(group)]
        _curve(axes, [(value, cell.regret) for value, cell in points], "gated", COLOURS["gate"])
        for name, row in beside.items():
            axes.axhline(main[row][at].regret.mean(), color=COLOURS[name], linestyle="--", label=name)
        twin = axes.twinx()
        accepted = [(value, cell.acceptance.mean()) for value, cell in points]
        twin.plot(*zip(*accepted, strict=True), color="0.5", marker="s", linestyle=":")
        twin.set(ylim=(-0.03, 1.05), ylabel="acceptance rate (grey)")
        twin.grid(visible=False)
        axes.set(xlabel=label, ylabel=f"R_T at T = {at}")
        axes.legend()
    panels[0].set_xscale("log")
    return figure


def floor_and_beta(results: Results) -> Figure:
    """Regret over the floor, β and the phases per window."""
    figure, (floors, betas, phases) = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True)
    at = results.plan.sweep_horizon
    points = [(max(s.learner.floor, 1e-7), cells[at].regret) for s, cells in results.group("sweep floor")]
    _curve(floors, points, "EvoDPO, β = 1", COLOURS["EvoDPO"])
    _, dpo = results.group("main")[0]
    floors.axhline(dpo[at].regret.mean(), color=COLOURS["DPO"], linestyle="--", label="DPO, β = 1")
    floors.set(xlabel="floor (leftmost: none)", ylabel=f"R_T at T = {at}")
    for method in ("DPO", "EvoDPO"):
        grid = [
            (s.learner.beta, s.learner.window.phases, c[at].regret)
            for s, c in results.group(f"grid {method}")
        ]
        for fixed, style in ((2, "-"), (16, "--")):
            line = [(beta, regret) for beta, n, regret in grid if n == fixed]
            _curve(betas, line, f"{method}, {fixed} phases per window", COLOURS[method], style)
        for weight, style in ((1.0, "-"), (0.3, "--")):
            line = [(n, regret) for beta, n, regret in grid if beta == weight]
            _curve(phases, line, f"{method}, β = {weight:g}", COLOURS[method], style)
    betas.set(xlabel="β (floor 0.05)")
    phases.set(xlabel="phases per estimator window")
    for axes in (floors, betas, phases):
        axes.set(xscale="log", ylim=(0, None))
        axes.legend()
    phases.set_xticks(PHASES_PER_WINDOW, [str(n) for n in PHASES_PER_WINDOW])
    phases.minorticks_off()
    return figure


def lemmas(results: Results) -> Figure:
    """How close each inequality comes to equality, and how often it fails once an assumption is broken."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2))
    tightest = results.on_instances.tightest.clip(lower=1e-7)
    left.barh(tightest.index, tightest, color="tab:blue")
    left.axvline(1.0, color="tab:red", linewidth=1)
    left.set(xscale="log", xlim=(1e-3, 3), xlabel="largest left/right (1 violates)", title="assumptions hold")
    broken = {b["inequality"]: b["violations"] / b["instances"] for b in results.broken}
    right.barh(list(broken), list(broken.values()), color="tab:red")
    right.set(xlim=(0, 1.02), xlabel="share of instances that violate it", title="one assumption broken")
    for axes in (left, right):
        axes.invert_yaxis()
    return figure
