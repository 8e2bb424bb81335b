"""How widely a run has searched: best score, different programs and clusters of every island, by round."""

import math
from collections import defaultdict
from typing import Any

from atlas_gym.agents.population.clusters import RADIUS
from atlas_gym.experiments.loggers.metrics import ClusterFold
from atlas_gym.experiments.report.data import RunData

ROUNDS_SHOWN = 400
"""Rounds up to which a chart has a point for each."""


def coverage(run: RunData) -> dict[str, Any]:
    """Per island and round: best score, number of different valid programs, number of clusters reached so far.

    Returns:
        `islands`, `rounds` (the abscissa; of a long run not every round), and `best`, `programs` and `clusters`
        (islands × rounds).
    """
    islands = sorted({record.island for record in run.candidates})
    last = run.census.rounds
    rounds = sorted({*range(0, last, every(last)), last}) if run.candidates else []
    ends = _ends(run)
    table: dict[str, list[list[Any]]] = {"best": [], "programs": [], "clusters": []}
    for island in islands:
        state: tuple[Any, ...] = (None, 0, 0)
        states = [state := ends.get((island, round_), state) for round_ in range(last + 1)]
        for number, rows in enumerate(table.values()):
            rows.append([states[round_][number] for round_ in rounds])
    return {"islands": islands, "rounds": rounds, **table}


def _ends(run: RunData) -> dict[tuple[int, int], tuple[float, int, int]]:
    """By island and round, what an island had come to when the round ended, of those rounds that changed it."""
    fold = ClusterFold(float(run.setting("agent.cluster_radius", RADIUS)))
    best: dict[int, float] = {}
    programs: dict[int, set[str | None]] = defaultdict(set)
    clusters: dict[int, set[int | None]] = defaultdict(set)
    found = {}
    for record in run.everything():
        if not record.passed or record.score is None:
            continue
        island = record.island
        best[island] = max(record.score, best.get(island, record.score))
        programs[island].add(record.program_key)
        clusters[island] |= {fold.cluster_of(record)} - {None}
        found[island, record.round] = best[island], len(programs[island]), len(clusters[island])
    return found


def every(rounds: int) -> int:
    """Of a long run's rounds, a chart shows one in so many."""
    return max(1, math.ceil(rounds / ROUNDS_SHOWN))
