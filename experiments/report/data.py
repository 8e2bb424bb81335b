"""What a report needs of a run, read in one moment from its folder."""

import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.trainers.loop.confirmation import held_out_gap
from atlas_gym.trainers.loop.control import FOLDER, NAMES, UNSEEN_BASE, UNSEEN_TUNED
from atlas_gym.trainers.store.plain import read_mapping
from atlas_gym.trainers.store.queries import held_out_key
from atlas_gym.trainers.store.store import RunStore, StoreError

BEST_SHOWN = 5
"""Best programs that are read of a run."""
UNSEEN = "unseen"
"""Names the comparison of the tuned and the base model on instances that no phase saw."""
BY_HAND = "by_hand"
"""Where a run's store has the best score of the task's experts on each instance."""
CALLS_SHOWN = 1000
"""Supporter calls up to which a report has all replies; of more, those about phases and an even choice of the others.
"""


@dataclass(frozen=True)
class RunData:
    """One run as its store had it."""

    name: str
    folder: Path
    config: Mapping[str, Any]  # its `config.yaml`; empty while it has none
    tried: pd.DataFrame
    """A row per program that was tried, by id: the columns of `candidates`, and `evaluated` (False: it failed its smoke
    run)."""
    candidates: pd.DataFrame
    """A row per evaluated candidate, by id: `id`, `round`, `island`, `origin`, `status`, `score` (NaN without one),
    `new` (False of a start, and of what repeats an earlier program) and `message` (of a failed one, the end of its
    error)."""
    rounds: tuple[Mapping[str, Any], ...]  # summary of every finished round
    phases: tuple[Mapping[str, Any], ...]  # result of every finished phase, skipped ones too
    exams: Mapping[int, Mapping[str, Any]]  # answers to the exam by phase; 0 is the base model
    supporter_calls: tuple[Mapping[str, Any], ...]
    """Calls of supporters, in order; their `reply` is None where it is not shown (`CALLS_SHOWN`)."""
    held_out: Mapping[str, Mapping[str, Any]]
    """Confirmation of initial and best programs by `held_out_key`, where there is one yet."""
    ends: tuple[tuple[Candidate, Candidate], ...]  # initial and best program of each instance of the task
    top: tuple[Candidate, ...]  # the best programs, see `RunStore.best_candidates`
    instances: int = 1  # instances of the task that the islands have, in turn
    by_hand: float | None = None
    """Mean over the instances of the best score of the task's experts, on the training seeds."""

    @property
    def best(self) -> Candidate | None:
        """The best program, if one has been scored."""
        return self.top[0] if self.top else None

    @property
    def last_round(self) -> int:
        """The last round that has candidates."""
        return int(self.candidates["round"].max()) if len(self.candidates) else 0

    @property
    def evaluated(self) -> pd.Series:
        """Of each candidate, how many different programs had been evaluated with it; the starts do not count."""
        return self.candidates.new.cumsum()

    @property
    def counts(self) -> dict[str, int]:
        """Programs that were drawn in exploration, smoke-tested, and evaluated, and of these the ones that teach."""
        return {
            "drawn": sum(unit.get("drawn", 0) for unit in self.rounds),
            "smoke-tested": sum(unit.get("smoke_runs", 0) for unit in self.rounds),
            "evaluated": int(self.candidates.new.sum()),
            "taught": int((self.candidates.new & (self.candidates.id < 0)).sum()),
        }

    @cached_property
    def curve(self) -> list[tuple[int, float]]:
        """Best score so far against different programs evaluated: a point per improvement and one at the end. With
        several instances the mean of their best scores, from where all have one."""
        rows = self.candidates.assign(number=self.evaluated)
        rows = rows[rows.score.notna()]
        points: list[tuple[int, float]] = []
        bests: dict[int, float] = {}
        for island, score, number in rows[["island", "score", "number"]].itertuples(index=False):
            instance = island % self.instances
            if score > bests.get(instance, -math.inf):
                bests[instance] = score
                if len(bests) == self.instances:
                    points.append((number, sum(bests.values()) / self.instances))
        if points and points[-1][0] < (last := int(self.candidates.new.sum())):
            points.append((last, points[-1][1]))
        return points

    @cached_property
    def controls(self) -> dict[str, "RunData"]:
        """What the run is compared with, by name (`trainers.loop.control`), as far as it has come."""
        folders = {name: self.folder / FOLDER / name for name in NAMES}
        runs = {name: read_run(path) for name, path in folders.items() if (path / "run.sqlite").is_file()}
        return {name: run for name, run in runs.items() if run.curve}

    @property
    def beside(self) -> dict[str, "RunData"]:
        """The controls that search on the run's own instances."""
        return {name: own for name, own in self.controls.items() if name not in (UNSEEN_TUNED, UNSEEN_BASE)}

    @property
    def compared(self) -> list[tuple[str, "RunData", "RunData"]]:
        """What is compared, by name: the run with each control, and the tuned model's search with the base model's
        (`UNSEEN`). Only what is scored on seeds of one kind: a control that is under way waits."""
        pairs = [(name, self, other) for name, other in self.beside.items()]
        if {UNSEEN_TUNED, UNSEEN_BASE} <= self.controls.keys():
            pairs.append((UNSEEN, self.controls[UNSEEN_TUNED], self.controls[UNSEEN_BASE]))
        return [(name, one, other) for name, one, other in pairs if one.confirmed == other.confirmed]

    @property
    def found(self) -> pd.Series:
        """Score of the best program by instance: the mean over the held-out seeds; until all have one (`confirmed`),
        the training score."""
        ends = {best.island % self.instances: best for _, best in self.ends}
        scores = {
            n: self.held_out_scores(best) if self.confirmed else [best.value] for n, best in ends.items()
        }
        return pd.Series({number: sum(own) / len(own) for number, own in sorted(scores.items())})

    @property
    def tuned_phases(self) -> list[Mapping[str, Any]]:
        """Those that were not skipped."""
        return [phase for phase in self.phases if not phase.get("skipped")]

    @property
    def confirmed(self) -> bool:
        """The run has come to its end: the best program of each instance is confirmed on held-out seeds."""
        return bool(self.ends) and all(self.held_out_scores(best) for _, best in self.ends)

    def everything(self) -> Iterator[Candidate]:
        """Every candidate with its texts, by id; those that taught, last."""
        with RunStore.open_readonly(self.folder) as store:
            yield from store.candidates()
            yield from store.taught(len(self.phases) + 1)

    def setting(self, key: str, default: Any = None) -> Any:
        """A setting by its dotted name."""
        value: Any = self.config
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def held_out_scores(self, record: Candidate | None) -> list[float]:
        """A program's scores on the held-out seeds; empty if it was not confirmed."""
        return list(self._confirmation(record).get("scores", ()))

    def held_out_gap(self, record: Candidate) -> str:
        """A program's training score against its held-out scores, in words; empty if it was not confirmed."""
        failed = len(self._confirmation(record).get("failed", ()))
        return held_out_gap(record.score, self.held_out_scores(record), failed)

    def _confirmation(self, record: Candidate | None) -> Mapping[str, Any]:
        if record is None or record.program_key is None:
            return {}
        return self.held_out.get(held_out_key(record, self.instances), {})


@contextmanager
def intelligible(problem: str) -> Iterator[None]:
    """Make one clear `StoreError` of whatever goes wrong in a block that reads what no run has written: a stranger's
    folder or a damaged file may hold any value in any place."""
    try:
        yield
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError, sqlite3.Error,
    ) as error:  # fmt: skip
        said = " ".join(str(error).split())[:200]
        raise StoreError(f"{problem} ({type(error).__name__}: {said})") from error


def read_run(folder: Path) -> RunData:
    """Read a run folder, of a finished run or of one under way. Raises `StoreError`: there is no run store in it, or
    one that no run has written."""
    with intelligible(f"{folder} holds a damaged run"), RunStore.open_readonly(folder) as store:
        columns = [
            "id", "round", "island", "origin", "status", "score", "duplicate_of", "message", "evaluated",
        ]  # fmt: skip
        # Closed before the store, also where a damaged row ends the reading.
        with closing(store.outcomes()) as outcomes:
            tried = pd.DataFrame(outcomes, columns=columns)
        tried = tried.astype({"id": int, "round": int, "island": int, "score": float, "evaluated": bool})
        new = tried.duplicate_of.isna() & (tried.origin != "seed")
        tried = tried.assign(new=new).drop(columns="duplicate_of")
        config = Path(folder) / "config.yaml"
        ends, top = tuple(store.ends()), tuple(store.best_candidates(BEST_SHOWN))
        keys = {held_out_key(record, store.instances) for record in (*top, *chain(*ends))}
        every = math.ceil(store.count("supporter_calls") / CALLS_SHOWN)
        return RunData(
            name=Path(folder).resolve().name,
            folder=Path(folder),
            config=read_mapping(config, "the configuration") if config.is_file() else {},
            tried=tried,
            candidates=tried[tried.evaluated].drop(columns="evaluated"),
            rounds=tuple(store.round_summaries()),
            phases=tuple(store.phases()),
            exams=store.exams(),
            supporter_calls=tuple(
                call if call["phase"] is not None or i % every == 0 else {**call, "reply": None}
                for i, call in enumerate(store.supporter_calls())
            ),
            held_out={key: found for key in keys if (found := store.held_out(key)) is not None},
            ends=ends,
            top=top,
            instances=store.instances,
            by_hand=fmean(known) if (known := store.get_meta(BY_HAND)) else None,
        )
