"""The leaderboard's tables: rows, held-out scores, curves and settings as CSV files, and what is computed from them.

    rows.csv      a row: what was asked for, evaluated and refused, tokens, seconds
    scores.csv    a row's score on each held-out task
    curves.csv    a row's best score on the training task, against candidates, tokens and seconds
    settings.csv  what differs from each project's defaults

The statistics are those of Agarwal et al. (2021): interquartile means over all runs of all tasks, bootstrapped within
tasks, and performance profiles; differences are paired by task and seed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, trim_mean

from atlas_gym.experiments.report.table_formats import write_csv
from atlas_gym.intervals import Interval, mean_interval

KEY = ["task", "learner", "seed"]
ROWS = [
    *KEY, "version", "what", "budget", "candidates", "evaluated", "refused", "statuses", "tokens", "prompt_tokens",
    "seconds", "cpu_seconds", "score",
]  # fmt: skip
TABLES = ("rows", "scores", "curves", "settings")

Row = Mapping[str, Any]


def write_tables(rows: Sequence[Row], folder: Path) -> None:
    """Write the CSV files of finished rows into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in zip(TABLES, (_rows(rows), _scores(rows), _curves(rows), _settings(rows)), strict=True):
        write_csv(table, folder / f"{name}.csv")


def read_tables(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables by name."""
    return {name: pd.read_csv(folder / f"{name}.csv", keep_default_na=False) for name in TABLES}


def _rows(rows: Sequence[Row]) -> pd.DataFrame:
    found = pd.DataFrame(rows)
    ended = [sorted(row["statuses"].items()) for row in rows]
    found["refused"] = [sum(count for status, count in own if status != "ok") for own in ended]
    found["statuses"] = [", ".join(f"{status} {count}" for status, count in own) for own in ended]
    return found[ROWS]


def _scores(rows: Sequence[Row]) -> pd.DataFrame:
    found = [(row, task, value) for row in rows for task, value in enumerate(row["held_out"])]
    return pd.DataFrame([{**_key(row), "held_out": task, "value": value} for row, task, value in found])


def _curves(rows: Sequence[Row]) -> pd.DataFrame:
    return pd.DataFrame([{**_key(row), **point} for row in rows for point in row["curve"]])


def _settings(rows: Sequence[Row]) -> pd.DataFrame:
    found = [
        {"learner": row["learner"], "setting": name, **{key: str(value) for key, value in change.items()}}
        for row in rows
        for name, change in row["changes"].items()
    ]
    return pd.DataFrame(found, columns=["learner", "setting", "value", "default", "why"]).drop_duplicates(
        ["learner", "setting"]
    )


def _key(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in KEY}


def gains(scores: pd.DataFrame, start: str) -> pd.Series:
    """Share of the start's loss that a submission is without on the held-out tasks, by task, learner and seed.

    Args:
        scores: the table of held-out scores, all below 0.
        start: the learner that submits the start.

    Raises:
        ValueError: a task has no row of the start.
    """
    means = scores.groupby(KEY, sort=False)["value"].mean()
    levels = means[means.index.get_level_values("learner") == start].groupby("task").mean()
    if missing := set(means.index.get_level_values("task")) - set(levels.index):
        raise ValueError(f"no row of the start on {', '.join(sorted(missing))}")
    return 1.0 - means / levels.reindex(means.index.get_level_values("task")).to_numpy()


def paired_difference(values: pd.Series, learner: str, other: str) -> tuple[Interval, int] | None:
    """The mean difference of two learners over the tasks and seeds that both have, and how many those are; None if
    there are none."""
    names = values.index.get_level_values("learner")
    mine, theirs = (values[names == name].droplevel("learner") for name in (learner, other))
    differences = (mine - theirs).dropna()
    return None if differences.empty else (mean_interval(differences.tolist()), len(differences))


def interquartile_mean(values: pd.Series, learner: str, resamples: int = 2000) -> tuple[float, float, float]:
    """Mean of the middle half of a learner's runs on all tasks, of each at least two, with a 95 % percentile-bootstrap
    interval.

    Runs are drawn anew within each task, so that every resample has as many of each.
    """

    def middle(*runs: np.ndarray, axis: int = -1) -> np.ndarray:
        return trim_mean(np.concatenate(runs, axis=-1), 0.25, axis=-1)

    by_task = [run.to_numpy() for _, run in values.xs(learner, level="learner").groupby("task")]
    rng = np.random.default_rng(0)
    found = bootstrap(by_task, middle, n_resamples=resamples, method="percentile", vectorized=True, rng=rng)
    interval = found.confidence_interval
    return float(middle(*by_task)), float(interval.low), float(interval.high)


def profile(values: pd.Series, learner: str, levels: np.ndarray) -> np.ndarray:
    """Share of a learner's runs that gain more than each level, every task weighing the same."""
    by_task = [run.to_numpy() for _, run in values.xs(learner, level="learner").groupby("task")]
    return np.mean([(run[:, None] > levels).mean(axis=0) for run in by_task], axis=0)


def best_at(curve: pd.DataFrame, by: str, levels: np.ndarray) -> np.ndarray:
    """One row's best score when it had taken each level of `candidates`, `tokens` or `seconds`."""
    return curve.groupby(by)["best"].max().cummax().asof(levels).to_numpy()
