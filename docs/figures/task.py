"""README's picture: its own task, evolved by its own command under five seeds, beside what it has to be measured by.

    python docs/figures/task.py                draws task.png from task.csv
    python docs/figures/task.py FOLDER         first reads the runs FOLDER/{search,expressions}-s{0..4} into task.csv

The runs, in a folder with README's forecast.py, for each seed S:

    atlas run --env ./forecast.py:Forecast --method search --rounds 2 --seed S --folder search-sS
    atlas run --env ./forecast.py:Forecast --method expressions-alone --evaluations 72 --rounds 4 --seed S \
--folder expressions-sS
"""

import sys
from difflib import ndiff
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym import make_task
from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.style import COLORS, KEPT, MUTED, PROMOTED, TEXT_WIDTH, plot_style

HERE = Path(__file__).parent
DATA = HERE / "task.csv"
ARMS = {"search": "the model writes, untuned", "expressions": "random expressions, no model"}
SEEDS = range(5)
BY_HAND = "def forecast(past):\n    return past[::7].mean()\n"
"""The mean of the same day of the week: the best that is known by hand."""


def read(folder: Path) -> pd.DataFrame:
    """A row per improvement of a run, and one per seed of the start and of the program by hand."""
    task = make_task(f"{folder / 'forecast.py'}:Forecast")
    rows: list[tuple[str, int, int, float, str]] = []
    with EvaluatorPool(1) as pool:
        for seed in SEEDS:
            for name, text in (("start", task.starts["named"]), ("by hand", BY_HAND)):
                score = pool.evaluate(text, task.at(seed, "train")).score
                rows.append((name, seed, 0, float("nan") if score is None else score, text))
    for arm in ARMS:
        for seed in SEEDS:
            run = read_run(folder / f"{arm}-s{seed}")
            best = "" if run.best is None else run.best.program or ""
            rows += [(arm, seed, number, score, best) for number, score in run.curve]
    return pd.DataFrame(rows, columns=["arm", "seed", "evaluations", "score", "program"])


def draw(data: pd.DataFrame) -> None:
    """Left what the runs changed, right what share of the start's error is gone."""
    start = data[data.arm == "start"].set_index("seed").score
    data = data.assign(gone=100 * (1 - data.score / data.seed.map(start)))
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 2.5))
        text, axes = figure.subplots(1, 2, width_ratios=(1, 1.5))
        show_changes(text, data)
        axes.axhline(
            data[data.arm == "by hand"].gone.mean(),
            color="#000000",
            linestyle="--",
            label="best known by hand",
        )
        for (arm, label), color in zip(ARMS.items(), COLORS, strict=False):
            own = data[data.arm == arm]
            at = np.arange(own.groupby("seed").evaluations.max().min() + 1)
            curves = np.array([step(run, at) for _, run in own.groupby("seed")])
            axes.plot(
                at, curves.mean(0), color=color, label=f"{label}: mean and range of {len(curves)} seeds"
            )
            axes.fill_between(at, curves.min(0), curves.max(0), color=color, alpha=0.15, linewidth=0)
        axes.axhline(0, color=MUTED, linestyle="--", label="the start")
        axes.set(xlabel="programs evaluated", ylabel="error gone, %", ylim=(-30, None))
        axes.legend(loc="lower right", ncols=1)
        figure.savefig(HERE / "task.png", metadata={"Software": None})


def step(run: pd.DataFrame, at: np.ndarray) -> np.ndarray:
    """A run's best so far after each of these numbers of evaluations."""
    last = np.searchsorted(run.evaluations, at, side="right") - 1
    return run.gone.to_numpy()[np.maximum(last, 0)]


def show_changes(axes: Axes, data: pd.DataFrame) -> None:
    """What the first seed's best program changed of the start, and what stands there in the others."""
    start = data[data.arm == "start"].program.iloc[0]
    best = [own.program.iloc[0].strip() for _, own in data[data.arm == "search"].groupby("seed")]
    axes.set_axis_off()
    colors = {"-": KEPT, "+": PROMOTED, " ": "#333333"}
    lines = [line for line in ndiff(start.splitlines(), best[0].splitlines()) if line[0] != "?"]
    for row, line in enumerate(lines):
        axes.text(0, 0.9 - 0.14 * row, line, family="monospace", size=10, color=colors[line[0]])
    others = [program.splitlines()[-1].split("return")[-1].strip() for program in best[1:]]
    note = "the other seeds:\n" + ", ".join(dict.fromkeys(others)) + "\nall are the same day of a week before"
    axes.text(0, 0.12, note, size=8, color="#555555", linespacing=1.4)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        read(Path(sys.argv[1])).to_csv(DATA, index=False, float_format="%.6g")
    draw(pd.read_csv(DATA))
