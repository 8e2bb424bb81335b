"""How widely a run has searched: best score, different programs and clusters of every island, by round."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from agents.population.candidate import CandidateRecord
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
    clusters = fold or cluster_fold(run)
    islands = sorted({record.island for record in run.candidates})
    found = {island: _Found() for island in islands}
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
                table["best"][row].append(found[island].best)
                table["programs"][row].append(len(found[island].programs))
                table["clusters"][row].append(len(found[island].clusters))

    for record in run.everything():
        note_until(record.round)
        found[record.island].add(record, clusters.extend((record,)))
    note_until(math.inf)
    return {"islands": islands, "rounds": rounds, **table}


def every(rounds: int) -> int:
    """Of a long run's rounds, a chart shows one in so many."""
    return max(1, math.ceil(rounds / ROUNDS_SHOWN))


class _Found:
    """What one island has found so far."""

    def __init__(self) -> None:
        self.best: float | None = None
        self.programs: set[str | None] = set()
        self.clusters: set[int] = set()

    def add(self, record: CandidateRecord, cluster_of: Mapping[str, int | None]) -> None:
        if not record.passed or record.score is None:
            return
        self.best = record.score if self.best is None else max(self.best, record.score)
        self.programs.add(record.program_key)
        cluster = cluster_of.get(record.program_key or "")
        if cluster is not None:
            self.clusters.add(cluster)
