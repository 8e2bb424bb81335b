"""Weights & Biases, on a leash: it watches a run and can never stop one.

`Tracker` is the record, `WandbObserver` what writes a run into it: a row per evaluation, per round and per phase;
tables and artifacts at the end, under the names of `experiments.loggers.metrics`.

Modes: `online` (needs a key), `offline` (files in the run folder, `wandb sync` later; the default without a key) and
`off`. A missing package, a failing server or a full disk is reported once and tracking ends; the run store has
everything anyway. W&B ignores `resume` offline, so the run keeps a fixed id of its own, its own step, and its own
counters as x-axes (`define_metric`), all of which stay monotonic over a resume. On resume the loop tells everything
again from its store: what was logged by an earlier process is counted, not logged twice.

In a sweep the agent names the run and its mode through the environment, and is heard.
"""

import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from experiments.loggers.metrics import Progress, Row, final_row, phase_row, probe_row
from trainers.loop.config import Mode, RunConfig
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


AXES = {
    "evaluations": ("score/*",),
    "round": ("explore/*", "island/*", "status/*", "clusters/*"),
    "phase": ("phase/*", "gate/*", "probe/*", "strategist/*", "supporters/*"),
}


def resolve_mode(mode: Mode) -> Literal["online", "offline", "off"]:
    """`auto` is what $WANDB_MODE says, else online with a key in the environment or under a W&B agent, else
    offline."""
    if mode != "auto":
        return mode
    asked = os.environ.get("WANDB_MODE", "")
    if asked in ("offline", "online"):
        return asked  # type: ignore[return-value]
    if asked in ("disabled", "dryrun"):
        return "off" if asked == "disabled" else "offline"
    return "online" if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_SWEEP_ID") else "offline"


class Tracker:
    """One run's W&B record.

    Args:
        folder: the run's folder; the offline files go below it.
        mode: see the module.
        config: the run's configuration, as plain values.
        run_id: fixed id, so that a resumed run continues the same record.
        step: number of rows logged before, by whatever process; the next row gets this step.
        warn: called with one line if tracking has to end.
    """

    def __init__(
        self, folder: Path, mode: Mode, config: Mapping[str, Any], run_id: str, warn=print, step: int = 0
    ):
        self.step = step
        """Step of the next row."""
        self._warn = warn
        self._run: Any = None
        resolved = resolve_mode(mode)
        if resolved == "off":
            return
        try:
            import wandb
        except ImportError:
            warn('W&B is not installed (pip install "atlas-gym[learn]"); this run is not tracked.')
            return
        self._guard(lambda: self._start(wandb, folder, resolved, config, run_id))

    def _start(self, wandb: Any, folder: Path, mode: str, config: Mapping[str, Any], run_id: str) -> None:
        self._wandb = wandb
        if mode == "online" and not _answers(wandb.setup().settings.base_url):
            # Asked here because W&B itself tries for half a minute and then keeps nothing at all.
            mode = "offline"
            self._warn(
                "W&B's server does not answer; this run is tracked offline, send it later with `wandb sync`."
            )
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "atlas-gym"),
            id=run_id,
            name=folder.name,
            dir=str(folder),
            mode=mode,
            config=dict(config),
            group=str(config.get("env", "")),
            tags=[str(config.get("method", ""))],
            resume="allow",
            # An outage may cost a run these seconds and no more; what was not sent can be synchronised later.
            settings=wandb.Settings(silent=True, console="off", init_timeout=30, finish_timeout=120),
        )
        for axis, patterns in AXES.items():
            self._run.define_metric(axis)
            for pattern in patterns:
                self._run.define_metric(pattern, step_metric=axis)

    def log(self, values: Mapping[str, Any]) -> None:
        """Log one row; it must hold its axis (one of `AXES`)."""
        step, self.step = self.step, self.step + 1
        if self._run is not None:
            self._guard(lambda: self._run.log(dict(values), step=step, commit=True))

    def table(self, name: str, columns: list[str], rows: list[list[Any]]) -> None:
        """Log a table, for example of the best programs."""
        step, self.step = self.step, self.step + 1
        if self._run is not None:
            self._guard(
                lambda: self._run.log(
                    {name: self._wandb.Table(columns=columns, data=rows)}, step=step, commit=True
                )
            )

    def artifact(self, name: str, kind: str, paths: list[Path]) -> None:
        """Attach files or folders."""
        if self._run is None:
            return

        def attach() -> None:
            artifact = self._wandb.Artifact(name, type=kind)
            for path in paths:
                (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
            self._run.log_artifact(artifact)

        self._guard(attach)

    def finish(self, summary: Mapping[str, Any] | None = None) -> None:
        """Write the summary and close the record."""
        if self._run is None:
            return

        def close() -> None:
            self._run.summary.update(dict(summary or {}))
            self._run.finish()

        self._guard(close)
        self._run = None

    def _guard(self, action) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  whatever an outage raises, the run goes on
            self._run = None
            self._warn(f"W&B tracking ended ({type(error).__name__}: {str(error)[:200]}); the run goes on.")


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
