"""How widely a run has searched: best score, different programs and clusters of every island, by round."""

from collections.abc import Mapping
from typing import Any

from agents.candidate import CandidateRecord
from agents.clusters import ClusterSettings
from experiments.metrics import ClusterFold
from experiments.report.data import RunData
from trainers.settings_file import build


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
        `islands`, `rounds` (the abscissa), and `best`, `programs` and `clusters` (islands × rounds).
    """
    cluster_of = (fold or cluster_fold(run)).extend(run.candidates)
    islands = sorted({record.island for record in run.candidates})
    found = {island: _Found() for island in islands}
    table: dict[str, list[list[Any]]] = {
        key: [[] for _ in islands] for key in ("best", "programs", "clusters")
    }
    rounds = list(range(run.rounds + 1)) if run.candidates else []
    at = 0
    for round_ in rounds:
        while at < len(run.candidates) and run.candidates[at].round == round_:
            record = run.candidates[at]
            found[record.island].add(record, cluster_of)
            at += 1
        for row, island in enumerate(islands):
            table["best"][row].append(found[island].best)
            table["programs"][row].append(len(found[island].programs))
            table["clusters"][row].append(len(found[island].clusters))
    return {"islands": islands, "rounds": rounds, **table}


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
