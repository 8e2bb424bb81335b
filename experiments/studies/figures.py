"""A study's Figure 2: best score over different programs evaluated, and the shares of valid and new programs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.report.style import COLORS, TEXT_WIDTH, plot_style, save
from experiments.studies.rows import Row

_PANELS = (
    ("best_training", "best score so far"),
    ("valid_share", "share of valid programs"),
    ("distinct_share", "share of new programs"),
)


def draw_study(rounds: Sequence[Row], folder: Path) -> list[Path]:
    """One row of panels a start; lines are means over seeds, bands ± one standard error."""
    starts = list(dict.fromkeys(row["start"] for row in rounds))
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 2.1 * len(starts)))
        grid = figure.subplots(len(starts), len(_PANELS), squeeze=False)
        for start, axes in zip(starts, grid, strict=True):
            for (key, label), panel in zip(_PANELS, axes, strict=True):
                _draw(panel, [row for row in rounds if row["start"] == start], key)
                panel.set(xlabel="round", ylabel=label)
                panel.xaxis.get_major_locator().set_params(integer=True)
            axes[0].set_title(f"start: {start}", loc="left")
        grid[0][0].legend(loc="lower right")
        return save(figure, folder / "progress")


def _draw(panel, rows: Sequence[Row], key: str) -> None:
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    for color, arm in zip(COLORS * len(arms), arms, strict=False):
        seeds = list(dict.fromkeys(row["seed"] for row in rows if row["arm"] == arm))
        curves = [
            [(r["round"], r[key]) for r in rows if (r["arm"], r["seed"]) == (arm, seed)] for seed in seeds
        ]
        x = [round_ for round_, _ in curves[0] if round_ > 0 or key == "best_training"]
        y = np.array([[value for round_, value in curve if round_ in x] for curve in curves])
        mean = y.mean(axis=0)
        panel.plot(x, mean, color=color, label=arm)
        if len(seeds) > 1:
            error = y.std(axis=0, ddof=1) / np.sqrt(len(seeds))
            panel.fill_between(x, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
