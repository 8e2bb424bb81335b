"""A run as W&B sees it: a row per evaluation, per round and per phase; tables and artifacts at the end.

The names are those of `experiments.loggers.metrics`. On resume the loop tells everything again from its store: what was
logged by an earlier process is counted, not logged twice.
"""

import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.loggers.metrics import Progress, Row, final_row, phase_row, probe_row
from experiments.loggers.tracking import Tracker
from trainers.loop.config import RunConfig
from trainers.loop.observer import Observer
from trainers.store.plain import plain
from trainers.store.store import RunStore

BEST_PROGRAMS = 10


class WandbObserver(Observer):
    """Forwards a run's events to a `Tracker`.

    Args:
        store: the run's store; it also keeps the record's id and how far it has been logged.
        config: the run's configuration.
        warn: called with one line if tracking has to end.
    """

    def __init__(self, store: RunStore, config: RunConfig, warn: Callable[[str], None]):
        # An agent of a sweep names the run before it starts.
        run_id = store.get_meta("run_id") or os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:12]
        store.set_meta("run_id", run_id)
        self._store = store
        self._groups = config.exploration.groups
        self._progress = Progress(config.agent.islands.clusters)
        self._logged = {"round": -1, "phase": 0, "probe": 0, "finished": 0, "step": 0} | store.get_meta(
            "wandb_logged", {}
        )
        self._tracker = Tracker(
            store.folder, config.tracking, plain(config), run_id, warn, step=self._logged["step"]
        )
        self._units: list[Mapping[str, Any]] = []
        self._final: Row = {}

    def seeded(self, score: float, round_: int, rounds: int) -> None:
        """See `Observer`."""
        self._log("round", 0, list(self._progress.evaluations(self._store.candidates("WHERE c.round = 0"))))

    def unit(self, summary: Mapping[str, Any], best: float) -> None:
        """See `Observer`."""
        self._units.append(summary)
        if len(self._units) < self._groups:
            return
        units, self._units = self._units, []
        number = summary["round"]
        records = list(self._store.candidates("WHERE c.round = ?", (number,)))
        rows = list(self._progress.evaluations(records))
        self._log("round", number, [*rows, self._progress.round(units, records)])

    def probe(self, phase: int, moment: str, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        self._log("probe", 2 * phase + (moment in ("after", "tuned")), [probe_row(phase, moment, result)])

    def phase(self, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        number = result["phase"]
        self._log("phase", number, [phase_row(result, self._store.supporter_calls(number))])

    def attach(self, paths: list[Path]) -> None:
        """Attach the run's report and its latest adapters as artifacts."""
        self._tracker.artifact(f"report-{self._store.get_meta('run_id')}", "report", paths)
        adapters = sorted((self._store.folder / "adapters").glob("phase-*"))
        if adapters:
            self._tracker.artifact(f"adapters-{self._store.get_meta('run_id')}", "model", adapters[-1:])

    def finished(self, summary: Mapping[str, Any]) -> None:
        """See `Observer`."""
        best = self._store.best_candidates(BEST_PROGRAMS)
        rows = [[r.id, r.round, r.island, r.origin, r.score, r.program] for r in best]
        if self._is_new("finished", 1, 1):
            self._tracker.table(
                "best_programs", ["id", "round", "island", "origin", "score", "program"], rows
            )
        self._final = final_row(self._store)

    def close(self) -> None:
        """Finish the record."""
        self._tracker.finish(self._final)

    def _log(self, axis: str, number: int, rows: list[Row]) -> None:
        if self._is_new(axis, number, len(rows)):
            for row in rows:
                self._tracker.log(row)

    def _is_new(self, axis: str, number: int, rows: int) -> bool:
        """Whether nothing of this has been logged; noted first, so that a process killed in between loses these rows
        rather than logging them twice."""
        if number <= self._logged[axis]:
            return False
        self._logged |= {axis: number, "step": self._tracker.step + rows}
        self._store.set_meta("wandb_logged", self._logged)
        return True
