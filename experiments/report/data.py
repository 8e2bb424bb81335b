"""What a report needs of a run, read in one moment from its folder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from agents.candidate import CandidateRecord
from trainers.store import RunStore


@dataclass(frozen=True)
class RunData:
    """One run as its store had it."""

    name: str
    """The run folder's name."""
    config: Mapping[str, Any]
    """Its `config.yaml`; empty if the run has not come as far as writing one."""
    candidates: tuple[CandidateRecord, ...]
    """Every candidate by id; prompts are left out."""
    units: tuple[Mapping[str, Any], ...]
    """Summary of every finished unit, in order of round and group."""
    phases: tuple[Mapping[str, Any], ...]
    """Result of every finished phase, skipped ones included."""
    probes: Mapping[tuple[int, str], Mapping[str, Any]]
    """Probe by phase and moment (`before`, `after`)."""
    supporter_calls: tuple[Mapping[str, Any], ...]
    """Every consultation of a supporter, in order."""
    held_out: Mapping[str, Mapping[str, Any]]
    """Confirmation of the initial and the best program by program key, where there is one yet."""

    @cached_property
    def task_began(self) -> int:
        """The round in which the run's last task began: scores before it mean something else."""
        return max((c.round for c in self.candidates if c.origin == "carried"), default=0)

    @cached_property
    def initial(self) -> CandidateRecord | None:
        """The program the run started from, as its last task scores it."""
        return next((c for c in self.candidates if c.round >= self.task_began), None)

    @cached_property
    def best(self) -> CandidateRecord | None:
        """The highest score on the training seeds, the earliest of equals."""
        comparable = (c for c in self.candidates if c.passed and c.round >= self.task_began)
        return max(comparable, key=lambda c: (c.score, -c.id), default=None)

    @property
    def tuned_phases(self) -> list[Mapping[str, Any]]:
        """The phases that were not skipped."""
        return [phase for phase in self.phases if not phase.get("skipped")]

    @property
    def rounds(self) -> int:
        """The last round that is stored."""
        return self.candidates[-1].round if self.candidates else 0

    @property
    def confirmed(self) -> bool:
        """Whether the run has come to its end: its best program is confirmed on held-out seeds."""
        return self.best is not None and self.best.program_key in self.held_out

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
        return list(self.held_out.get(record.program_key, {}).get("scores", ()))


def read_run(folder: Path) -> RunData:
    """Read a run folder, of a finished run or of one under way.

    Raises:
        StoreError: there is no run store in it.
    """
    with RunStore.open_readonly(folder) as store:
        candidates = tuple(replace(record, prompt="") for record in store.candidates())
        phases = tuple(store.phases())
        keys = {record.program_key for record in candidates if record.program_key is not None}
        return RunData(
            name=Path(folder).resolve().name,
            config=_read_config(Path(folder) / "config.yaml"),
            candidates=candidates,
            units=tuple(store.unit_summaries()),
            phases=phases,
            probes=_probes(store, phases),
            supporter_calls=tuple(store.supporter_calls()),
            held_out={key: found for key in keys if (found := store.held_out(key)) is not None},
        )


def _read_config(path: Path) -> Mapping[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _probes(
    store: RunStore, phases: tuple[Mapping[str, Any], ...]
) -> dict[tuple[int, str], Mapping[str, Any]]:
    probes: dict[tuple[int, str], Mapping[str, Any]] = {}
    for phase in phases:
        for moment in ("before", "after"):
            result = store.probe(phase["phase"], moment)
            if result is not None:
                probes[phase["phase"], moment] = result
    return probes


def best_curve(run: RunData) -> list[tuple[int, float]]:
    """Best score so far against different programs evaluated: one point per improvement, and the last one.

    Where the task drifted, the curve is that of the last task.
    """
    points: list[tuple[int, float]] = []
    evaluations = 0
    for record in run.candidates:
        evaluations += record.duplicate_of is None
        if record.round < run.task_began:
            continue
        if record.score is not None and (not points or record.score > points[-1][1]):
            points.append((evaluations, record.score))
    if points and points[-1][0] < evaluations:
        points.append((evaluations, points[-1][1]))
    return points
