"""A study's Figure 2: best score over different programs evaluated, and the shares of valid and distinct programs."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.intervals import standard_error
from experiments.report.style import COLORS, TEXT_WIDTH, plot_style, save

_PANELS = (
    ("best_training", "best score so far"),
    ("valid_share", "share of valid programs"),
    ("distinct_share", "share of distinct programs"),
)


def draw_study(rounds: pd.DataFrame, folder: Path) -> list[Path]:
    """One row of panels a start; lines are means over seeds, bands ± one standard error."""
    starts = list(rounds.start.unique())
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 2.1 * len(starts)))
        grid = figure.subplots(len(starts), len(_PANELS), squeeze=False)
        for start, axes in zip(starts, grid, strict=True):
            for (key, label), panel in zip(_PANELS, axes, strict=True):
                _draw(panel, rounds[rounds.start == start], key)
                panel.set(xlabel="round", ylabel=label)
                panel.xaxis.get_major_locator().set_params(integer=True)
            axes[0].set_title(f"start: {start}", loc="left")
        grid[0][0].legend(loc="lower right")
        return save(figure, folder / "progress")


def _draw(panel: Axes, rows: pd.DataFrame, key: str) -> None:
    for color, (arm, own) in zip(COLORS * len(rows), rows.groupby("arm", sort=False), strict=False):
        curves = own.pivot(index="round", columns="seed", values=key)
        if key != "best_training":
            curves = curves[curves.index > 0]
        mean, error = curves.mean(axis=1), standard_error(curves.T)
        panel.plot(curves.index, mean, color=color, label=arm)
        if curves.shape[1] > 1:
            panel.fill_between(curves.index, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
