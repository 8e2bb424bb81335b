"""What a report needs of a run, read in one moment from its folder.

A page is looked at by people: beyond `SHOWN` candidates it shows a selection and says so. Always shown are the
programs that the run started from, every improvement of the best score, the best programs, the ancestors of the
best one; the rest is drawn at random from the candidates that repeat no earlier one, together with their parents, so
that what each changed can be seen. The draw is the same each time a report is made. One look at the outcomes of all
candidates, texts left out, gives the selection and everything that is counted.
"""

import heapq
import json
import math
import random
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from agents.population.candidate import CandidateRecord
from trainers.loop.confirmation import HeldOutGap, held_out_gap
from trainers.store.plain import read_mapping
from trainers.store.queries import held_out_key
from trainers.store.store import RunStore, StoreError

SHOWN = 6000
"""Candidates up to which a page shows all."""
DRAWN = 2500
"""Candidates drawn at random for a page that does not show all."""
_BEST = 50
_ANCESTORS = 1000
_STARTS = 500
CALLS_SHOWN = 1000
"""Consultations up to which a report has all."""


@dataclass(frozen=True)
class Census:
    """What is counted over all candidates of a run."""

    candidates: int = 0
    """How many there are."""
    valid: int = 0
    """How many of them ran."""
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


@dataclass(frozen=True)
class RunData:
    """One run as its store had it."""

    name: str
    """The run folder's name."""
    config: Mapping[str, Any]
    """Its `config.yaml`; empty if the run has not come as far as writing one."""
    folder: Path
    """The run folder."""
    census: Census
    """What is counted over all candidates."""
    candidates: tuple[CandidateRecord, ...]
    """The candidates that are shown, by id; prompts are left out. Of a long run a selection, see `selection`."""
    units: tuple[Mapping[str, Any], ...]
    """Summary of every finished unit, in order of round and group."""
    phases: tuple[Mapping[str, Any], ...]
    """Result of every finished phase, skipped ones included."""
    probes: Mapping[tuple[int, str], Mapping[str, Any]]
    """Probe by phase and moment (`before`, `after`; `base`, `tuned` on the task after the last phase)."""
    supporter_calls: tuple[Mapping[str, Any], ...]
    """Consultations of supporters, in order; of very many, those about phases and an even choice of the others."""
    held_out: Mapping[str, Mapping[str, Any]]
    """Confirmation of the initial and the best program by program key, where there is one yet."""

    @cached_property
    def task_began(self) -> int:
        """The round in which the run's last task began: scores before it mean something else."""
        return max((c.round for c in self.candidates if c.origin == "carried"), default=0)

    @property
    def instances(self) -> int:
        """How many instances of the task the islands have, in turn."""
        return self.census.instances

    @cached_property
    def initial(self) -> CandidateRecord | None:
        """The program that the best one's island started from, as its last task scores it."""
        return self._starts.get(self.best.island if self.best else 0)

    @cached_property
    def best(self) -> CandidateRecord | None:
        """The highest score on the training seeds, the earliest of equals; with several instances the program that lies
        furthest above its island's start."""
        comparable = (c for c in self.candidates if c.passed and c.round >= self.task_began)
        return max(comparable, key=lambda c: (self._rise(c), c.score, -c.id), default=None)

    @cached_property
    def _starts(self) -> dict[int, CandidateRecord]:
        starts: dict[int, CandidateRecord] = {}
        for candidate in self.candidates:
            if candidate.round >= self.task_began:
                starts.setdefault(candidate.island, candidate)
        return starts

    def _rise(self, record: CandidateRecord) -> float:
        return (record.score or 0.0) - (self._starts[record.island].score or 0.0)

    @property
    def tuned_phases(self) -> list[Mapping[str, Any]]:
        """The phases that were not skipped."""
        return [phase for phase in self.phases if not phase.get("skipped")]

    @property
    def rounds(self) -> int:
        """The last round that is stored."""
        return self.census.rounds

    def everything(self) -> Iterator[CandidateRecord]:
        """Every candidate by id, whether it is shown or not."""
        if self.census.candidates == len(self.candidates):
            yield from self.candidates
            return
        with RunStore.open_readonly(
            self.folder
        ) as store:  # of a run under way: no more than the census knows
            yield from islice(store.candidates(), self.census.candidates)

    @property
    def confirmed(self) -> bool:
        """Whether the run has come to its end: its best program is confirmed on held-out seeds."""
        return self.best is not None and held_out_key(self.best, self.instances) in self.held_out

    def setting(self, key: str, default: Any = None) -> Any:
        """A setting by its dotted name."""
        value: Any = self.config
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def held_out_scores(self, record: CandidateRecord | None) -> list[float]:
        """A program's scores on the held-out seeds; empty if it was not confirmed."""
        if record is None or record.program_key is None:
            return []
        return list(self.held_out.get(held_out_key(record, self.instances), {}).get("scores", ()))

    def held_out_gap(self, record: CandidateRecord | None) -> HeldOutGap | None:
        """A program's training score against its held-out scores; None if it was not confirmed."""
        if record is None or record.score is None or record.program_key is None:
            return None
        failed = len(self.held_out.get(held_out_key(record, self.instances), {}).get("failed", ()))
        return held_out_gap(record.score, self.held_out_scores(record), failed)


@contextmanager
def intelligible(problem: str) -> Iterator[None]:
    """Make one clear `StoreError` of whatever goes wrong in a block that reads what is not what a run writes: a
    stranger's folder or a damaged file may hold any value in any place."""
    try:
        yield
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, sqlite3.Error
    ) as error:  # fmt: skip
        said = " ".join(str(error).split())[:200]
        raise StoreError(f"{problem} ({type(error).__name__}: {said})") from error


def read_run(folder: Path) -> RunData:
    """Read a run folder, of a finished run or of one under way.

    Raises:
        StoreError: there is no run store in it, or one that no run has written.
    """
    with intelligible(f"{folder} holds a damaged run"), RunStore.open_readonly(folder) as store:
        census, ids = select(store.outcomes(), store.task_began(), instances=store.instances)
        where, args = (
            ("", ())
            if ids is None
            else ("WHERE c.id IN (SELECT value FROM json_each(?))", (json.dumps(ids),))
        )
        candidates = tuple(replace(record, prompt="") for record in store.candidates(where, args))
        phases = tuple(store.phases())
        keys = {
            held_out_key(record, store.instances) for record in candidates if record.program_key is not None
        }
        return RunData(
            name=Path(folder).resolve().name,
            config=_read_config(Path(folder) / "config.yaml"),
            folder=Path(folder),
            census=census,
            candidates=candidates,
            units=tuple(store.unit_summaries()),
            phases=phases,
            probes=store.probes(),
            supporter_calls=_calls(store),
            held_out={key: found for key in keys if (found := store.held_out(key)) is not None},
        )


def _calls(store: RunStore) -> tuple[Mapping[str, Any], ...]:
    every = math.ceil(store.count("supporter_calls") / CALLS_SHOWN)
    calls = enumerate(store.supporter_calls())
    return tuple(call for i, call in calls if call["phase"] is not None or i % every == 0)


def _read_config(path: Path) -> Mapping[str, Any]:
    return read_mapping(path, "the configuration") if path.is_file() else {}


def best_curve(run: RunData) -> list[tuple[int, float]]:
    """Best score so far against different programs evaluated: one point per improvement, and the last one.

    Where the task drifted, the curve is that of the last task.
    """
    return list(run.census.curve) if run.candidates else []


def select(
    outcomes: Iterable[tuple], began: int = 0, shown: int = SHOWN, drawn: int = DRAWN, instances: int = 1
) -> tuple[Census, list[int] | None]:
    """The census, and the ids to show in their order; None for all.

    Args:
        outcomes: (id, round, island, parent, status, score, duplicate_of) by id, as `RunStore.outcomes` gives them.
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
        self._valid = self._evaluated = self._round = 0
        self._curve: list[tuple[int, float]] = []
        self._must: set[int] = set()
        self._top: list[tuple[float, int]] = []

    def add(
        self, id_: int, round_: int, island: int, parent: int | None, status: str, score: float | None,
        duplicate_of: int | None,
    ) -> None:  # fmt: skip
        """One candidate."""
        fresh = duplicate_of is None
        self._evaluated += fresh
        self._valid += status == "ok"
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
            candidates=len(self.ids), valid=self._valid, evaluated=self._evaluated, rounds=self._round,
            curve=tuple(curve), instances=self._instances, bests=self._bests, numbers=tuple(numbers),
        )  # fmt: skip
