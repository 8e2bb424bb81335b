"""What W&B is told of a run: a row per evaluation, per round, per phase and per optimiser step, under the names of
`experiments.loggers.metrics`; at the end the best programs, the report, its figure, and artifacts.

Who is logged in to W&B is tracked online, everybody else offline, into the run folder. What W&B itself was told, by
`WANDB_*` variables or its settings files, wins over what is chosen here; only `tracking: off` is off whatever the
environment says. A missing package, a failing server or a full disk is reported once and ends the tracking, never the
run.

W&B ignores `resume` offline, so a run keeps an id of its own, its own step, and its own counters as x-axes (`AXES`).
On resume the loop tells everything again from its store: what was logged by an earlier process is counted, not logged
twice.
"""

import difflib
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from atlas_gym.experiments.loggers.metrics import (
    Progress,
    Row,
    exam_row,
    final_row,
    phase_row,
    step_rows,
)
from atlas_gym.trainers.loop.config import Mode, RunConfig
from atlas_gym.trainers.loop.exam import learned
from atlas_gym.trainers.loop.observer import Observer
from atlas_gym.trainers.store.plain import plain
from atlas_gym.trainers.store.store import RunStore

BEST_PROGRAMS = 10
AXES = {
    "evaluations": ("score/*",),
    "round": ("explore/*", "island/*", "status/*", "clusters/*"),
    "phase": ("phase/*", "gate/*", "exam/*", "strategist/*", "supporters/*"),
    "optimiser_step": ("dpo/*",),
}
"""What the charts are drawn over."""
PROJECT = "atlas-gym"
_CHANGE = "Change it with `--tracking off|offline|online` or WANDB_MODE."


class WandbObserver(Observer):
    """Forwards a run's events to a `Tracker`.

    Args:
        store: the run's store; it also keeps the record's id and how far it has been logged.
        config: the run's configuration.
        warn: called with one line if tracking has to end.
        tell: called with one line that says how the run is tracked.
    """

    def __init__(
        self, store: RunStore, config: RunConfig, warn: Callable[[str], None], tell: Callable[[str], None]
    ):
        # An agent of a sweep names the run before it starts.
        run_id = store.get_meta("run_id") or os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:12]
        store.set_meta("run_id", run_id)
        self._store = store
        self._rounds = config.rounds  # a run that rounds are added to ends once more
        self._progress = Progress(config.agent.cluster_radius, max(1, len(config.instances)))
        nothing = {"round": -1, "phase": 0, "exam": 0, "finished": 0, "attached": 0, "step": 0}
        self._logged = nothing | store.get_meta("wandb_logged", {})
        self._tracker = Tracker(
            store.folder, config.tracking, plain(config), run_id, warn, tell, self._logged["step"]
        )
        self._steps = 0

    def seeded(self, score: float, round_: int, rounds: int) -> None:
        self._log("round", 0, list(self._progress.evaluations(self._store.candidates("c.round = 0"))))

    def round(self, summary: Mapping[str, Any], best: float) -> None:
        number = summary["round"]
        rows = list(self._progress.evaluations(self._store.candidates("c.round = ?", (number,))))
        self._log("round", number, [*rows, self._progress.round(summary)])

    def exam(self, phase: int, exams: Mapping[int, Mapping[str, Any]]) -> None:
        if phase:
            self._log("exam", phase, [exam_row(phase, learned(exams)[phase])])

    def phase(self, result: Mapping[str, Any]) -> None:
        number = result["phase"]
        steps = step_rows(result, self._steps)
        self._steps += len(steps)
        self._log("phase", number, [*steps, phase_row(result, self._store.supporter_calls(number))])

    def finished(self, summary: Mapping[str, Any]) -> None:
        if self._is_new("finished", self._rounds, 1):
            start = self._store.start()
            before, rows = start.program.splitlines(), []
            for record in self._store.best_candidates(BEST_PROGRAMS):
                after, name = record.program.splitlines(), f"program {record.id}"
                changed = "\n".join(difflib.unified_diff(before, after, "start", name, lineterm="", n=1))
                shown = [record.id, record.round, record.island, record.origin, record.score]
                rows.append([*shown, changed, record.program])
            columns = ["id", "round", "island", "origin", "score", "changed_since_start", "program"]
            self._tracker.show("best_programs", "Table", columns, rows)

    def attach(self, paths: list[Path]) -> None:
        """Show the run's report and figure, and keep them, its configuration and its latest adapters as artifacts."""
        shown = [path for path in paths if path.suffix in (".html", ".png")]
        if not self._is_new("attached", self._rounds, len(shown)):
            return
        for path in shown:
            name, kind = ("report", "Html") if path.suffix == ".html" else ("figure", "Image")
            self._tracker.show(name, kind, str(path))
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


class Tracker:
    """The record.

    Args:
        folder: the run's folder; the offline files go below it.
        mode: the setting `tracking`.
        config: the run's configuration, as plain values.
        run_id: fixed id, so that a resumed run continues the same record.
        warn: called with one line if tracking has to end, or cannot be online.
        tell: called with one line that says what was chosen.
        step: number of rows logged before, by whatever process; the next row gets this step.
    """

    def __init__(
        self, folder: Path, mode: Mode, config: Mapping[str, Any], run_id: str,
        warn: Callable[[str], None], tell: Callable[[str], None], step: int = 0,
    ):  # fmt: skip
        self.step = step
        """Step of the next row."""
        self._warn, self._tell = warn, tell
        self._run: Any = None
        if mode == "off":
            tell(f"W&B: off. {_CHANGE}")
            return
        try:
            import wandb
        except ImportError:
            say = tell if mode == "auto" else warn
            say('W&B: off (it is not installed: `pip install "atlas-gym[wandb]"`).')
            return
        self._wandb = wandb
        self._guard(lambda: self._start(folder, mode, config, run_id))

    def _start(self, folder: Path, mode: Mode, config: Mapping[str, Any], run_id: str) -> None:
        wandb = self._wandb
        chosen, reason = choose(wandb, mode)
        theirs = wandb.setup().settings
        if chosen == "online" and not _answers(theirs.base_url):
            # Asked here because W&B itself tries for half a minute and then keeps nothing at all.
            chosen, reason = "offline", "its server does not answer"
            self._warn(
                "W&B's server does not answer; this run is tracked offline, send it later with `wandb sync`."
            )
        if chosen == "off":
            self._tell(f"W&B: off ({reason}). {_CHANGE}")
            return
        self._run = wandb.init(
            project=theirs.project or PROJECT, id=run_id, name=theirs.run_name or folder.name, dir=str(folder),
            mode=chosen, config=dict(config), group=theirs.run_group or str(config.get("env", "")),
            tags=theirs.run_tags or [str(config.get("method", ""))], resume="allow",
            # An outage may cost a run these seconds and no more; what was not sent can be synchronised later.
            settings=wandb.Settings(silent=True, console="off", init_timeout=30, finish_timeout=120),
        )  # fmt: skip
        files = f"files in {folder / 'wandb'}, to be sent by `wandb sync`"
        where = self._run.url if chosen == "online" else files
        self._tell(f"W&B: {chosen} ({reason}), {where}. {_CHANGE}")
        for axis, patterns in AXES.items():
            self._run.define_metric(axis)
            for pattern in patterns:
                self._run.define_metric(pattern, step_metric=axis)

    def log(self, values: Mapping[str, Any]) -> None:
        """Log one row; it must hold its axis (one of `AXES`)."""
        step, self.step = self.step, self.step + 1
        self._tell_run(lambda run: run.log(dict(values), step=step, commit=True))

    def show(self, name: str, kind: str, *parts: Any) -> None:
        """Log what W&B shows: its `Html`, `Image` or `Table`, made of these parts."""
        self._tell_run(lambda _: self.log({name: getattr(self._wandb, kind)(*parts)}))

    def artifact(self, name: str, kind: str, paths: Sequence[Path]) -> None:
        """Attach files or folders."""

        def attach(run: Any) -> None:
            artifact = self._wandb.Artifact(name, type=kind)
            for path in paths:
                (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
            run.log_artifact(artifact)

        self._tell_run(attach)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary and close the record."""

        def close(run: Any) -> None:
            run.summary.update(dict(summary))
            run.finish()

        self._tell_run(close)
        self._run = None

    def _tell_run(self, action: Callable[[Any], object]) -> None:
        """Do it with W&B's run, where there still is one."""
        if self._run is not None:
            self._guard(lambda: action(self._run))

    def _guard(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  whatever an outage raises, the run goes on
            self._run = None
            self._warn(f"W&B tracking ended ({type(error).__name__}: {str(error)[:200]}); the run goes on.")


def choose(wandb: Any, mode: Mode) -> tuple[Literal["online", "offline", "off"], str]:
    """How a run is tracked and why, from the setting `tracking` and from what W&B was told.

    `wandb` is the package, which reads its environment and its settings files itself.
    """
    told = wandb.setup().settings.mode  # from the environment or a settings file; "online" if from neither
    if told in ("offline", "dryrun", "disabled"):  # its modes in which nothing is sent
        return "off" if told == "disabled" else "offline", f"W&B was told {told}"
    if os.environ.get("WANDB_MODE"):
        return "online", f"WANDB_MODE is {told}"
    if mode != "auto":
        return mode, f"tracking is {mode}"
    if wandb.login(prompt=False, verify=False):
        return "online", "logged in to W&B"
    return "offline", "not logged in: `wandb login`"


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError as error:
        return isinstance(error, urllib.error.HTTPError)  # an answer, whatever it says
    return True
