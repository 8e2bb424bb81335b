"""What W&B is told of a run: a row per evaluation, per round, per phase and per optimiser step, under the names of
`experiments.loggers.metrics`; at the end the best programs, the report, its figure, and artifacts.

W&B ignores `resume` offline, so a run keeps an id of its own, its own step, and its own counters as x-axes
(`AXES`), all of which stay monotonic over a resume. On resume the loop tells everything again from its store: what
was logged by an earlier process is counted, not logged twice.
"""

import difflib
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.population.candidate import CandidateRecord
from experiments.loggers.metrics import Progress, Row, final_row, measure_row, phase_row, probe_row, step_rows
from experiments.loggers.tracker import Tracker
from trainers.loop.config import RunConfig
from trainers.loop.measure import learned
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
        tell: called with one line that says how the run is tracked.
    """

    def __init__(
        self,
        store: RunStore,
        config: RunConfig,
        warn: Callable[[str], None] = print,
        tell: Callable[[str], None] = print,
    ):
        # An agent of a sweep names the run before it starts.
        run_id = store.get_meta("run_id") or os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:12]
        store.set_meta("run_id", run_id)
        self._store = store
        self._groups = config.exploration.groups
        self._progress = Progress(config.agent.islands.clusters, max(1, len(config.instances)))
        nothing = {"round": -1, "phase": 0, "probe": 0, "measure": 0, "finished": 0, "attached": 0, "step": 0}
        self._logged = nothing | store.get_meta("wandb_logged", {})
        self._tracker = Tracker(
            store.folder, config.tracking, plain(config), run_id, warn, tell, self._logged["step"]
        )
        self._units: list[Mapping[str, Any]] = []
        self._steps = 0

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
        self._log("round", number, [*rows, self._progress.round(units)])

    def probe(self, phase: int, moment: str, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        self._log("probe", 2 * phase + (moment in ("after", "tuned")), [probe_row(phase, moment, result)])

    def measured(self, phase: int, probes: Mapping[tuple[int, str], Mapping[str, Any]]) -> None:
        """See `Observer`."""
        if phase:
            self._log("measure", phase, [measure_row(phase, learned(probes)[phase])])

    def phase(self, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        number = result["phase"]
        steps = step_rows(result, self._steps)
        self._steps += len(steps)
        self._log("phase", number, [*steps, phase_row(result, self._store.supporter_calls(number))])

    def finished(self, summary: Mapping[str, Any]) -> None:
        """See `Observer`."""
        if self._is_new("finished", 1, 1):
            start = self._store.start()
            rows = [_table_row(record, start) for record in self._store.best_candidates(BEST_PROGRAMS)]
            self._tracker.table("best_programs", _COLUMNS, rows)

    def attach(self, paths: list[Path]) -> None:
        """Show the run's report and figure, and keep them, its configuration and its latest adapters as artifacts."""
        shown = [path for path in paths if path.suffix in (".html", ".png")]
        if not self._is_new("attached", 1, len(shown)):
            return
        for path in shown:
            self._tracker.page("report" if path.suffix == ".html" else "figure", path)
        run_id, folder = self._store.get_meta("run_id"), self._store.folder
        kept = [path for path in (*paths, folder / "config.yaml") if path.exists()]
        self._tracker.artifact(f"report-{run_id}", "report", kept)
        adapters = sorted((folder / "adapters").glob("phase-*"))
        if adapters:
            self._tracker.artifact(f"adapters-{run_id}", "model", adapters[-1:])

    def close(self) -> None:
        """Finish the record, of a run that was stopped too."""
        self._tracker.finish(final_row(self._store))

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


_COLUMNS = ("id", "round", "island", "origin", "score", "changed_since_start", "program")


def _table_row(record: CandidateRecord, start: CandidateRecord) -> list[Any]:
    """A program of the table `best_programs`, with a unified diff against the starting program."""
    before, after = start.program.splitlines(), record.program.splitlines()
    changed = "\n".join(
        difflib.unified_diff(before, after, "start", f"program {record.id}", lineterm="", n=1)
    )
    return [record.id, record.round, record.island, record.origin, record.score, changed, record.program]
