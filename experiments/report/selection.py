"""Which candidates of a run a page shows, and what is counted over all of them.

A page is looked at by people: beyond `SHOWN` candidates it shows a selection and says so. Always shown are the
programs that the run started from, every improvement of the best score, the best programs, the ancestors of the
best one; the rest is drawn at random from the candidates that repeat no earlier one, together with their parents, so
that what each changed can be seen. The draw is the same each time a report is made. One look at the outcomes of all
candidates, texts left out, gives the selection and everything that is counted.
"""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

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
    instances: int = 1
    """How many instances of the task the islands have, in turn."""
    bests: Mapping[int, float] = field(default_factory=dict)
    """Best score by instance of the task."""
    numbers: tuple[int, ...] = ()
    """Of every candidate that is shown, how many different programs had been evaluated with it."""


def select(outcomes: Iterable[tuple], instances: int = 1) -> tuple[Census, list[int] | None]:
    """The census, and the ids to show in their order; None for all.

    Args:
        outcomes: (id, round, island, parent, score, duplicate_of) by id, as `RunStore.outcomes` gives them.
        instances: how many instances of the task the islands have, in turn.
    """
    found = _table(outcomes)
    numbers = found.fresh.cumsum()
    scored = found[found.score.notna()]
    curve: list[tuple[int, float]] = []
    bests: dict[int, float] = {}
    better: list[int] = []
    for id_, island, score, number in zip(
        scored.id, scored.island, scored.score, numbers[scored.index], strict=True
    ):
        if score > bests.get(island % instances, -math.inf):
            bests[island % instances] = score
            better.append(id_)
            if len(bests) == instances:
                curve.append((number, sum(bests.values()) / instances))
    evaluated = int(found.fresh.sum())
    if curve and curve[-1][0] < evaluated:
        curve.append((evaluated, curve[-1][1]))
    ids = None if len(found) <= SHOWN else _choose(found, scored, better)
    numbers = numbers if ids is None else numbers[found.id.isin(ids)]
    return Census(
        candidates=len(found), evaluated=evaluated, rounds=int(found["round"].iloc[-1]) if len(found) else 0,
        curve=tuple(curve), instances=instances, bests=bests, numbers=tuple(numbers),
    ), ids  # fmt: skip


_OUTCOME = np.dtype(
    [("id", int), ("round", int), ("island", int), ("parent", int), ("score", float), ("fresh", bool)]
)


def _table(outcomes: Iterable[tuple]) -> pd.DataFrame:
    """The outcomes in little memory; without a parent -1, without a score NaN; fresh: repeating no earlier one."""
    rows = (
        (*place, -1 if parent is None else parent, math.nan if score is None else score, twin is None)
        for *place, parent, score, twin in outcomes
    )
    return pd.DataFrame(np.fromiter(rows, _OUTCOME))


def _choose(found: pd.DataFrame, scored: pd.DataFrame, better: list[int]) -> list[int]:
    """The ids of the selection, ascending."""
    starts = found.id[found["round"] == 0][:_STARTS]
    rise = scored.score - scored.groupby("island").score.transform("first")
    top = scored.id[rise[scored.fresh].nlargest(_BEST).index]
    chosen = {*starts, *better, *top}
    parents = dict(zip(found.id, found.parent, strict=True))
    at = next(iter(top), -1)
    for _ in range(_ANCESTORS):
        if at not in parents:
            break
        chosen.add(at)
        at = parents[at]
    fresh = np.flatnonzero(found.fresh).tolist()
    lot = found.iloc[random.Random(0).sample(fresh, min(DRAWN, len(fresh)))]
    return sorted(chosen | {*lot.id} | ({*lot.parent} & parents.keys()))
