"""How widely a run has searched: best score, different programs and clusters of every island, by round."""

import math
from collections import deque
from typing import Any

from agents.population.settings import ClusterSettings
from experiments.loggers.metrics import ClusterFold
from experiments.report.data import RunData
from trainers.store.plain import build

ROUNDS_SHOWN = 400
"""Rounds up to which a chart has a point for each."""


def cluster_fold(run: RunData) -> ClusterFold:
    """An empty fold with the run's own settings."""
    return ClusterFold(build(ClusterSettings, run.setting("agent.islands.clusters", {})))


def coverage(run: RunData, fold: ClusterFold | None = None) -> dict[str, Any]:
    """Per island and round: best score, number of different valid programs, number of clusters reached so
    far.

    Args:
        run: the run.
        fold: the fold of an earlier look at the same run, if there was one.

    Returns:
        `islands`, `rounds` (the abscissa; of a long run not every round), and `best`, `programs` and `clusters`
        (islands × rounds).
    """
    fold = fold or cluster_fold(run)
    islands = sorted({record.island for record in run.candidates})
    best: dict[int, float] = {}
    programs: dict[int, set[str | None]] = {island: set() for island in islands}
    clusters: dict[int, set[int]] = {island: set() for island in islands}
    table: dict[str, list[list[Any]]] = {
        key: [[] for _ in islands] for key in ("best", "programs", "clusters")
    }
    last = run.census.rounds
    rounds = sorted({*range(0, last, every(last)), last}) if run.candidates else []
    ahead = deque(rounds)

    def note_until(round_: float) -> None:
        while ahead and ahead[0] < round_:
            ahead.popleft()
            for row, island in enumerate(islands):
                table["best"][row].append(best.get(island))
                table["programs"][row].append(len(programs[island]))
                table["clusters"][row].append(len(clusters[island]))

    for record in run.everything():
        note_until(record.round)
        if not record.passed or record.score is None:
            continue
        best[record.island] = max(record.score, best.get(record.island, record.score))
        programs[record.island].add(record.program_key)
        cluster = fold.cluster_of(record)
        if cluster is not None:
            clusters[record.island].add(cluster)
    note_until(math.inf)
    return {"islands": islands, "rounds": rounds, **table}


def every(rounds: int) -> int:
    """Of a long run's rounds, a chart shows one in so many."""
    return max(1, math.ceil(rounds / ROUNDS_SHOWN))
