"""Islands: separate populations of scored programs.

An island is a pure fold over the candidate records it is given, in their order: nothing in it is random and
nothing else changes it, so a killed run rebuilds its islands from the stored records. Random choices among
its members take the generator they draw from as an argument.

Programs that passed are taken in, without duplicates by syntax tree and by exact score (a neutral edit of a
known program is no second parent). From them the *population* is chosen: a fixed count of parents, the best of
every cluster before the second best of any. Failed programs are kept apart, for whoever wants to learn from
errors.

Of a program that can no longer become a parent an island remembers fingerprint and score only: what it keeps
whole is of every cluster as many as the population holds. So a record costs the same in a run's first round and after
a million programs.
"""

from bisect import insort
from collections import deque

import numpy as np

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.population.clusters import Clusters, signature

CAPACITY = 8
"""Number of programs in the population."""
LONGEST_PARENT = 4_000
"""Programs with more characters than this never become parents (prompts would outgrow the model), unless the start is
about as long."""
FAILED = 32
"""How many failed programs are remembered."""


class Island:
    """One population."""

    def __init__(self, index: int, *, temperature: float = 0.01, round: int = 0):
        self.index = index
        self.round = round  # round of the latest record
        self.failed: deque[Candidate] = deque(maxlen=FAILED)  # the latest programs that failed
        self._temperature = temperature
        self._longest = LONGEST_PARENT
        self.clusters = Clusters()
        self.population: list[Candidate] = []
        self.cluster_of: list[int] = []  # the cluster of each of the population
        self._parents: list[list[Candidate]] = []
        """Of each cluster the best that may become parents, best first; no more than the population has room for."""
        self._keys: set[str] = set()
        self._scores: set[float] = set()

    def add(self, record: Candidate) -> bool:
        """Take a record in; returns whether it is a program that the island did not have."""
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
        mark = signature(record.program, record.score, record.metrics)
        self._keep(record, self.clusters.add(mark))
        return True

    def _keep(self, record: Candidate, cluster: int) -> None:
        if cluster == len(self._parents):
            self._parents.append([])
        if record.origin == "seed":  # it can be a parent, and so can what is a little longer
            self._longest = max(self._longest, 5 * len(record.program) // 4)
        if len(record.program) > self._longest:
            return
        parents = self._parents[cluster]
        insort(parents, record, key=_rank)
        if len(parents) > CAPACITY and parents.pop() is record:
            return
        # The best of each cluster come first, then the second best of each, and so on.
        tiers = [
            (tier, _rank(fit), number, fit)
            for number, parents in enumerate(self._parents)
            for tier, fit in enumerate(parents)
        ]
        tiers = sorted(tiers, key=lambda entry: entry[:2])[:CAPACITY]
        chosen = sorted(tiers, key=lambda entry: entry[1])
        self.population = [fit for *_, fit in chosen]
        self.cluster_of = [number for _, _, number, _ in chosen]

    @property
    def best(self) -> Candidate | None:
        """The best program that may become a parent."""
        return self.population[0] if self.population else None

    def choose_parent(self, rng: np.random.Generator) -> Candidate:
        """Draw a parent by score; the members of one cluster share its chances. Raises `LookupError`: The island holds
        no program yet."""
        if not self.population:
            raise LookupError(f"island {self.index} has no program to start from")
        scores = np.array([record.value for record in self.population])
        weights = np.exp((scores - scores.max()) / self._temperature)
        weights /= [self.cluster_of.count(cluster) for cluster in self.cluster_of]
        return self.population[int(rng.choice(len(weights), p=weights / weights.sum()))]

    def choose_worse(self, parent: Candidate, rng: np.random.Generator) -> Candidate | None:
        """Draw a member that scores lower than ``parent``, None if there is none."""
        worse = [record for record in self.population if record.value < parent.value]
        return worse[int(rng.integers(len(worse)))] if worse else None


def _rank(record: Candidate) -> tuple[float, int]:
    """Sorts the best first, the earliest of equals."""
    return -record.value, record.id
