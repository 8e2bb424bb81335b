"""Which candidates of a run a page shows, and what is counted over all of them.

A page is looked at by people: beyond `SHOWN` candidates it shows a selection and says so. Always shown are the
programs that the run started from, every improvement of the best score, the best programs, the ancestors of the
best one; the rest is drawn at random from the candidates that repeat no earlier one, together with their parents, so
that what each changed can be seen. The draw is the same each time a report is made. One look at the outcomes of all
candidates, texts left out, gives the selection and everything that is counted.
"""

import heapq
import math
import random
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SHOWN = 6000
"""Candidates up to which a page shows all."""
DRAWN = 2500
"""Candidates drawn at random for a page that does not show all."""
_BEST = 50
_ANCESTORS = 1000
_STARTS = 500


@dataclass(frozen=True)
class Census:
    """What is counted over all candidates of a run."""

    candidates: int = 0
    """How many there are."""
    evaluated: int = 0
    """How many are different programs."""
    rounds: int = 0
    """The last round."""
    curve: tuple[tuple[int, float], ...] = ()
    """Best score so far against different programs evaluated: one point per improvement, and the last one. With several
    instances the mean of their best scores."""
    began: int = 0
    """The round in which the run's last task began: scores before it mean something else."""
    instances: int = 1
    """How many instances of the task the islands have, in turn."""
    bests: Mapping[int, float] = field(default_factory=dict)
    """Best score by instance of the task."""
    numbers: tuple[int, ...] = ()
    """Of every candidate that is shown, how many different programs had been evaluated with it."""


def select(
    outcomes: Iterable[tuple], began: int = 0, shown: int = SHOWN, drawn: int = DRAWN, instances: int = 1
) -> tuple[Census, list[int] | None]:
    """The census, and the ids to show in their order; None for all.

    Args:
        outcomes: (id, round, island, parent, score, duplicate_of) by id, as `RunStore.outcomes` gives them.
        began: the round in which the run's last task began; earlier scores mean something else.
        shown: candidates up to which all are shown.
        drawn: how many are drawn at random of more.
        instances: how many instances of the task the islands have, in turn.
    """
    look = _Look(began, instances)
    for row in outcomes:
        look.add(*row)
    ids = None if len(look.ids) <= shown else look.choose(drawn)
    return look.census(ids), ids


class _Look:
    def __init__(self, began: int, instances: int) -> None:
        self._began, self._instances = began, instances
        self._starts: dict[int, float] = {}
        self._bests: dict[int, float] = {}
        self.ids, self.numbers, self.parents = array("q"), array("q"), array("q")
        self._fresh = array("q")
        self._evaluated = self._round = 0
        self._curve: list[tuple[int, float]] = []
        self._must: set[int] = set()
        self._top: list[tuple[float, int]] = []

    def add(
        self, id_: int, round_: int, island: int, parent: int | None, score: float | None, duplicate_of: int | None
    ) -> None:  # fmt: skip
        """One candidate."""
        fresh = duplicate_of is None
        self._evaluated += fresh
        self._round = round_
        self.ids.append(id_)
        self.numbers.append(self._evaluated)
        self.parents.append(-1 if parent is None else parent)
        if fresh:
            self._fresh.append(len(self.ids) - 1)
        if round_ in (0, self._began) and len(self._must) < _STARTS:
            self._must.add(id_)
        if score is None or round_ < self._began:
            return
        instance, start = island % self._instances, self._starts.setdefault(island, score)
        if score > self._bests.get(instance, -math.inf):
            self._bests[instance] = score
            self._must.add(id_)
            if len(self._bests) == self._instances:
                self._curve.append((self._evaluated, sum(self._bests.values()) / self._instances))
        if fresh:
            keep = heapq.heappush if len(self._top) < _BEST else heapq.heappushpop
            keep(self._top, (score - start, -id_))

    def choose(self, drawn: int) -> list[int]:
        """The ids of the selection, ascending."""
        place = {id_: i for i, id_ in enumerate(self.ids)}
        chosen = self._must | {-number for _, number in self._top}
        at = -max(self._top)[1] if self._top else -1
        for _ in range(_ANCESTORS):
            if at < 0:
                break
            chosen.add(at)
            at = self.parents[place[at]] if at in place else -1
        draw = random.Random(0).sample(self._fresh, min(drawn, len(self._fresh)))
        chosen |= {self.ids[i] for i in draw}
        chosen |= {parent for i in draw if (parent := self.parents[i]) in place}
        return sorted(chosen)

    def census(self, ids: list[int] | None) -> Census:
        """The figures, for these shown candidates."""
        curve = self._curve
        if curve and curve[-1][0] < self._evaluated:
            curve = [*curve, (self._evaluated, curve[-1][1])]
        shown = None if ids is None else set(ids)
        numbers = (n for id_, n in zip(self.ids, self.numbers, strict=True) if shown is None or id_ in shown)
        return Census(
            candidates=len(self.ids), evaluated=self._evaluated, rounds=self._round,
            curve=tuple(curve), began=self._began, instances=self._instances, bests=self._bests, numbers=tuple(numbers),
        )  # fmt: skip
