"""Several runs against each other: runs that differ in nothing but their seed become one curve with a band."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from atlas_gym.experiments.report.data import RunData
from atlas_gym.intervals import half_width
from atlas_gym.text import one_line
from atlas_gym.trainers.store.plain import flatten

_IRRELEVANT = ("seed", "evaluator", "workers", "torch_threads", "tracking")
"""Settings that say where and how fast a run went, not what it did."""
_GRID, _LABEL_CHARS = 200, 300


@dataclass(frozen=True)
class Group:
    """Runs of one configuration, one per seed."""

    label: str  # its method, then the settings that tell it from other groups of this method
    runs: tuple[RunData, ...]


class Band(NamedTuple):
    """Mean best score so far of a group of runs, and the band around it."""

    evaluations: np.ndarray  # different programs evaluated, up to the shortest run
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    meaning: str  # of the band, in words


def group_runs(runs: Sequence[RunData]) -> list[Group]:
    """Runs by configuration, in order of first appearance."""
    members: dict[tuple, list[RunData]] = {}
    for run in runs:
        settings = sorted(flatten(run.config).items())
        identity = tuple((key, repr(value)) for key, value in settings if key not in _IRRELEVANT)
        members.setdefault(identity, []).append(run)
    groups = []
    for identity, own in members.items():
        config = dict(identity)
        same = [dict(other) for other in members if dict(other).get("method") == config.get("method")]
        keys = sorted({key for other in same for key in other})
        varying = [key for key in keys if len({other.get(key) for other in same}) > 1]
        words = (f"{key}={own[0].setting(key)}" for key in varying)
        label = ", ".join([str(own[0].setting("method", "run")), *words])
        groups.append(Group(one_line(label, _LABEL_CHARS), tuple(own)))
    return groups


def band(group: Group) -> Band | None:
    """None if a run of the group has no scored program yet."""
    curves = [run.curve for run in group.runs]
    if not all(curves):
        return None
    end = min(curve[-1][0] for curve in curves)
    grid = np.unique(np.linspace(1, end, min(_GRID, end)).astype(int))
    values = np.array([pd.Series(dict(curve)).asof(grid).bfill() for curve in curves])
    mean, n = values.mean(axis=0), len(curves)
    if n < 3:
        meaning = "a single run" if n == 1 else "range of two runs"
        return Band(grid, mean, values.min(axis=0), values.max(axis=0), meaning)
    half = half_width(values)
    return Band(grid, mean, mean - half, mean + half, f"95 % confidence interval of the mean of {n} runs")
