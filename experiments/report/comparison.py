"""Several runs against each other: runs that differ in nothing but their seed become one curve with a
band."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from atlas_gym.experiments.report.data import RunData
from atlas_gym.intervals import half_width
from atlas_gym.trainers.store.plain import flatten

# Settings that say where and how fast a run went, not what it did.
_IRRELEVANT = ("seed", "evaluator", "workers", "torch_threads", "tracking")
_GRID = 200


@dataclass(frozen=True)
class Group:
    """Runs of one configuration."""

    label: str
    """What tells the group from the others: its method first, then the settings that differ."""
    runs: tuple[RunData, ...]
    """The runs, one per seed."""


@dataclass(frozen=True)
class Band:
    """Best score so far of a group of runs, against different programs evaluated."""

    label: str
    """The group's label."""
    runs: int
    """Number of runs."""
    evaluations: list[int]
    """Abscissa, up to the shortest run of the group."""
    mean: list[float]
    """Mean over the runs."""
    low: list[float]
    """Lower edge; empty with a single run."""
    high: list[float]
    """Upper edge; empty with a single run."""
    meaning: str
    """What the edges are, in words."""


def group_runs(runs: Sequence[RunData]) -> list[Group]:
    """Runs by configuration, in order of first appearance."""
    members: dict[tuple, list[RunData]] = {}
    for run in runs:
        settings = sorted(flatten(run.config).items())
        identity = tuple((key, repr(value)) for key, value in settings if key not in _IRRELEVANT)
        members.setdefault(identity, []).append(run)
    labels = _labels([flatten(group[0].config) for group in members.values()])
    return [Group(label, tuple(group)) for label, group in zip(labels, members.values(), strict=True)]


def band(group: Group) -> Band | None:
    """The group's curve; None if one of its runs has no scored program yet."""
    curves = [run.census.curve for run in group.runs]
    if not all(curves):
        return None
    end = min(curve[-1][0] for curve in curves)
    grid = np.unique(np.linspace(1, end, min(_GRID, end)).astype(int))
    values = np.array([pd.Series(dict(curve)).asof(grid).bfill() for curve in curves])
    mean, n = values.mean(axis=0), len(curves)
    if n == 1:
        low = high = np.array([])
        meaning = "a single run"
    elif n == 2:
        low, high, meaning = values.min(axis=0), values.max(axis=0), "range of two runs"
    else:
        half = half_width(values)
        low, high, meaning = mean - half, mean + half, f"95 % confidence interval of the mean of {n} runs"
    edges = low.tolist(), high.tolist()
    return Band(group.label, n, grid.tolist(), mean.tolist(), *edges, meaning)


def _labels(configs: list[dict[str, Any]]) -> list[str]:
    """The method's name, with those settings that differ between groups of the same method: a few, or all of them where
    the few do not tell the groups apart."""
    few, all_ = [], []
    for config in configs:
        method = config.get("method", "run")
        same = [other for other in configs if other.get("method", "run") == method]
        keys = sorted({key for other in same for key in other} - {"method", *_IRRELEVANT})
        varying = [key for key in keys if len({repr(other.get(key)) for other in same}) > 1]
        words = [str(method), *(f"{key}={config.get(key)}" for key in varying)]
        few.append(", ".join(words[:5]))
        all_.append(", ".join(words))
    return [short if few.count(short) == 1 else whole for short, whole in zip(few, all_, strict=True)]
