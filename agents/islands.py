"""Islands: separate populations of scored programs.

An island is a pure fold over the candidate records it is given, in their order: nothing in it is random and
nothing else changes it, so a killed run rebuilds its islands from the stored records. Random choices among
its members take the generator they draw from as an argument.

Programs that passed form the *buffer*, without duplicates by syntax tree and by exact score (a neutral edit
of a known program is no second parent). From it the *population* is chosen: a fixed count of parents, the
best of every cluster before the second best of any. Failed programs are kept apart, for whoever wants to
learn from errors.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from agents.candidate import CandidateRecord
from agents.clusters import Clusters, ClusterSettings, covering_top, signature


@dataclass(frozen=True)
class IslandSettings:
    """How an island keeps and draws programs."""

    capacity: int = 8
    """Number of programs in the population."""
    temperature: float = 0.01
    """Parents are drawn by softmax of score / temperature, in units of the task's score, > 0."""
    longest_parent: int = 4000
    """Programs with more characters than this never become parents (prompts would outgrow the model)."""
    failed: int = 32
    """How many failed programs are remembered."""
    clusters: ClusterSettings = field(default_factory=ClusterSettings)
    """When two programs count as different ideas."""


@dataclass(frozen=True)
class ClusterView:
    """One cluster of an island, for people: its leader shows what its programs have in common."""

    leader: CandidateRecord
    """The first program of the cluster, to which all others were compared."""
    best: CandidateRecord
    """The program with the highest score."""
    size: int
    """Programs in the buffer."""
    parents: int
    """Programs in the population."""


class Island:
    """One population."""

    def __init__(self, index: int, settings: IslandSettings | None = None):
        self.index = index
        self.settings = settings or IslandSettings()
        self.round = 0
        """Round of the latest record."""
        self.failed: deque[CandidateRecord] = deque(maxlen=self.settings.failed)
        """The latest programs that failed."""
        self._clear()

    def _clear(self) -> None:
        self.clusters = Clusters(self.settings.clusters)
        self.buffer: list[CandidateRecord] = []
        self.population: list[CandidateRecord] = []
        self._cluster_of: dict[int, int] = {}
        self._keys: set[str] = set()
        self._scores: set[float] = set()

    def add(self, record: CandidateRecord) -> bool:
        """Take a record in; returns whether it is a new program of the buffer."""
        self.round = max(self.round, record.round)
        if record.score is None or not record.passed:
            self.failed.append(record)
            return False
        if record.program_key is None:  # runs, but is too deep to be parsed here: nothing to build on
            return False
        if record.program_key in self._keys or record.score in self._scores:
            return False
        self._keys.add(record.program_key)
        self._scores.add(record.score)
        mark = signature(record.program, record.score, record.metrics, self.settings.clusters.depth)
        self._cluster_of[record.id] = self.clusters.add(mark)
        self.buffer.append(record)
        self._select()
        return True

    def restart(self, record: CandidateRecord) -> None:
        """Give up the buffer and begin again from one program."""
        self._clear()
        self.add(record)

    def _select(self) -> None:
        fit = [record for record in self.buffer if len(record.program) <= self.settings.longest_parent]
        fit.sort(key=lambda record: (-_score(record), record.id))
        self.population = covering_top(fit, self.settings.capacity, self.cluster_of)

    def cluster_of(self, record: CandidateRecord) -> int:
        """Index of a buffered record's cluster."""
        return self._cluster_of[record.id]

    @property
    def best(self) -> CandidateRecord | None:
        """The best program that may become a parent."""
        return self.population[0] if self.population else None

    @property
    def clusters_in_population(self) -> int:
        """How many clusters the parents come from."""
        return len({self.cluster_of(record) for record in self.population})

    def cluster_views(self) -> list[ClusterView]:
        """The clusters of the buffer, the one with the best program first."""
        members: dict[int, list[CandidateRecord]] = {}
        for record in self.buffer:
            members.setdefault(self.cluster_of(record), []).append(record)
        views = [
            ClusterView(
                leader=cluster[0],
                best=max(cluster, key=_score),
                size=len(cluster),
                parents=sum(record in self.population for record in cluster),
            )
            for cluster in members.values()
        ]
        return sorted(views, key=lambda view: -_score(view.best))

    def choose_parent(self, rng: np.random.Generator) -> CandidateRecord:
        """Draw a parent by score; the members of one cluster share its chances.

        Raises:
            LookupError: The island holds no program yet.
        """
        if not self.population:
            raise LookupError(f"island {self.index} has no program to start from")
        scores = np.array([_score(record) for record in self.population])
        clusters = [self.cluster_of(record) for record in self.population]
        weights = np.exp((scores - scores.max()) / self.settings.temperature)
        weights /= [clusters.count(cluster) for cluster in clusters]
        return self.population[int(rng.choice(len(weights), p=weights / weights.sum()))]

    def choose_worse(self, parent: CandidateRecord, rng: np.random.Generator) -> CandidateRecord | None:
        """Draw a member that scores lower than ``parent``, None if there is none."""
        worse = [record for record in self.population if _score(record) < _score(parent)]
        return worse[int(rng.integers(len(worse)))] if worse else None


def _score(record: CandidateRecord) -> float:
    if record.score is None:
        raise ValueError(f"candidate {record.id} has no score")
    return record.score
