"""What a report needs of a run, read in one moment from its folder."""

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.experiments.report.selection import Census, select
from atlas_gym.trainers.loop.confirmation import HeldOutGap, held_out_gap
from atlas_gym.trainers.store.plain import read_mapping
from atlas_gym.trainers.store.queries import held_out_key
from atlas_gym.trainers.store.store import RunStore, StoreError

BEST_SHOWN = 5
"""Best programs that tables have of a run."""
CALLS_SHOWN = 1000
"""Consultations up to which a report has all."""


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
    written: Mapping[str, Any]
    """What is counted without the programs that the run started from, see `RunStore.candidate_counts`."""
    candidates: tuple[CandidateRecord, ...]
    """The candidates that are shown, by id; prompts are left out. Of a long run a selection, see `select`."""
    rounds: tuple[Mapping[str, Any], ...]
    """Summary of every finished round."""
    phases: tuple[Mapping[str, Any], ...]
    """Result of every finished phase, skipped ones included."""
    exams: Mapping[int, Mapping[str, Any]]
    """Answers to the exam by phase; 0 is the base model."""
    supporter_calls: tuple[Mapping[str, Any], ...]
    """Consultations of supporters, in order; of very many, those about phases and an even choice of the others."""
    held_out: Mapping[str, Mapping[str, Any]]
    """Confirmation of the initial and the best program by program key, where there is one yet."""
    ends: tuple[tuple[CandidateRecord, CandidateRecord], ...]
    """Starting and best program of each instance of the task."""
    top: tuple[CandidateRecord, ...]
    """The best programs, see `RunStore.best_candidates`."""

    @cached_property
    def initial(self) -> CandidateRecord | None:
        """The program that the best one's island started from, as its last task scores it."""
        island = self.best.island if self.best else 0
        own = (c for c in self.candidates if c.island == island)
        return next(own, None)

    @property
    def best(self) -> CandidateRecord | None:
        """The first of the best programs, if there is one."""
        return self.top[0] if self.top else None

    @property
    def tuned_phases(self) -> list[Mapping[str, Any]]:
        """The phases that were not skipped."""
        return [phase for phase in self.phases if not phase.get("skipped")]

    def everything(self) -> Iterator[CandidateRecord]:
        """Every candidate by id, whether it is shown or not."""
        if self.census.candidates == len(self.candidates):
            yield from self.candidates
            return
        with RunStore.open_readonly(self.folder) as store:
            # Of a run under way no more than the census knows.
            yield from islice(store.candidates(), self.census.candidates)

    @property
    def confirmed(self) -> bool:
        """Whether the run has come to its end: its best program is confirmed on held-out seeds."""
        return bool(self._confirmation(self.best))

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
        return list(self._confirmation(record).get("scores", ()))

    def held_out_gap(self, record: CandidateRecord | None) -> HeldOutGap | None:
        """A program's training score against its held-out scores; None if it was not confirmed."""
        if record is None or record.score is None:
            return None
        failed = len(self._confirmation(record).get("failed", ()))
        return held_out_gap(record.score, self.held_out_scores(record), failed)

    def _confirmation(self, record: CandidateRecord | None) -> Mapping[str, Any]:
        if record is None or record.program_key is None:
            return {}
        return self.held_out.get(held_out_key(record, self.census.instances), {})


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
        # Closed before the store, also where a damaged row ends the selection.
        with closing(store.outcomes()) as outcomes:
            census, ids = select(outcomes, instances=store.instances)
        shown = "TRUE" if ids is None else "c.id IN (SELECT value FROM json_each(?))"
        records = store.candidates(shown, () if ids is None else (json.dumps(ids),))
        candidates = tuple(replace(record, prompt="") for record in records)
        config = Path(folder) / "config.yaml"
        keys = {
            held_out_key(record, store.instances) for record in candidates if record.program_key is not None
        }
        return RunData(
            name=Path(folder).resolve().name,
            config=read_mapping(config, "the configuration") if config.is_file() else {},
            folder=Path(folder),
            census=census,
            written=store.candidate_counts(),
            candidates=candidates,
            rounds=tuple(store.round_summaries()),
            phases=tuple(store.phases()),
            exams=store.exams(),
            supporter_calls=_calls(store),
            held_out={key: found for key in keys if (found := store.held_out(key)) is not None},
            ends=tuple(store.ends()),
            top=tuple(replace(record, prompt="") for record in store.best_candidates(BEST_SHOWN)),
        )


def _calls(store: RunStore) -> tuple[Mapping[str, Any], ...]:
    every = math.ceil(store.count("supporter_calls") / CALLS_SHOWN)
    calls = enumerate(store.supporter_calls())
    return tuple(call for i, call in calls if call["phase"] is not None or i % every == 0)
