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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from atlas_gym.experiments.loggers.metrics import Progress, Row, exam_row, final_row, phase_row, step_rows
from atlas_gym.trainers.loop.config import Mode, RunConfig
from atlas_gym.trainers.loop.exam import learned
from atlas_gym.trainers.loop.observer import Observer
from atlas_gym.trainers.store.plain import plain
from atlas_gym.trainers.store.store import RunStore

BEST_PROGRAMS = 10
AXES = {
    "evaluations": ("score/*",),
    "round": ("explore/*", "writers/*", "island/*", "status/*", "clusters/*"),
    "phase": ("phase/*", "gate/*", "exam/*", "strategist/*", "supporters/*"),
    "optimiser_step": ("dpo/*",),
}
"""x-axis → metrics that are drawn over it."""
_CHANGE = "Change it with `--tracking off|offline|online` or WANDB_MODE."


class WandbObserver(Observer):
    """Tells W&B of a run's events. The store keeps the record's id, and how far it has been logged. `warn` takes a line
    if tracking has to end or cannot be online, `tell` one that says how the run is tracked."""

    def __init__(
        self, store: RunStore, config: RunConfig, warn: Callable[[str], None], tell: Callable[[str], None]
    ):
        # An agent of a sweep names the run before it starts.
        self._id = store.get_meta("run_id") or os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:12]
        store.set_meta("run_id", self._id)
        self._store, self._warn, self._tell = store, warn, tell
        self._rounds = config.rounds  # a run that rounds are added to ends once more
        self._progress = Progress(max(1, len(config.instances)))
        nothing = {"round": -1, "phase": 0, "exam": 0, "finished": 0, "attached": 0, "step": 0}
        self._logged = nothing | store.get_meta("wandb_logged", {})
        self._step = self._logged["step"]
        self._optimiser_steps = 0
        self._run: Any = None
        if config.tracking == "off":
            tell(f"W&B: off. {_CHANGE}")
            return
        try:
            import wandb
        except ImportError:
            say = tell if config.tracking == "auto" else warn
            say('W&B: off (it is not installed: `pip install "atlas-gym[wandb]"`).')
            return
        self._wandb: Any = wandb
        try:
            self._run = self._start(config)
        except Exception as error:  # noqa: BLE001  as in `_use`
            self._end(error)

    def _start(self, config: RunConfig) -> Any:
        wandb, folder = self._wandb, self._store.folder
        chosen, reason = choose(wandb, config.tracking)
        theirs = wandb.setup().settings
        if chosen == "online":
            try:  # asked here because W&B itself tries for half a minute and then keeps nothing at all
                urllib.request.urlopen(theirs.base_url, timeout=5).close()
            except urllib.error.HTTPError:
                pass  # an answer, whatever it says
            except OSError:
                chosen, reason = "offline", "its server does not answer"
                self._warn(
                    "W&B's server does not answer: tracked offline, to be sent later with `wandb sync`."
                )
        if chosen == "off":
            self._tell(f"W&B: off ({reason}). {_CHANGE}")
            return None
        run = wandb.init(
            project=theirs.project or "atlas-gym", id=self._id, name=theirs.run_name or folder.name, dir=str(folder),
            mode=chosen, config=plain(config), group=theirs.run_group or config.env,
            tags=theirs.run_tags or [config.method], resume="allow",
            # An outage may cost a run these seconds and no more; what was not sent can be synchronised later.
            settings=wandb.Settings(silent=True, console="off", init_timeout=30, finish_timeout=120),
        )  # fmt: skip
        files = f"files in {folder / 'wandb'}, to be sent by `wandb sync`"
        self._tell(f"W&B: {chosen} ({reason}), {run.url if chosen == 'online' else files}. {_CHANGE}")
        for axis, patterns in AXES.items():
            run.define_metric(axis)
            for pattern in patterns:
                run.define_metric(pattern, step_metric=axis)
        return run

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
        steps = step_rows(result, self._optimiser_steps)
        self._optimiser_steps += len(steps)
        taught = self._progress.evaluations(self._store.taught(number, first=number))
        row = phase_row(result, self._store.supporter_calls(number))
        self._log("phase", number, [*taught, *steps, row])

    def finished(self, summary: Mapping[str, Any]) -> None:
        before, rows = self._store.start().program.splitlines(), []
        columns = ["id", "round", "island", "origin", "score", "changed_since_start", "program"]
        for own in self._store.best_candidates(BEST_PROGRAMS):
            after, name = own.program.splitlines(), f"program {own.id}"
            changed = "\n".join(difflib.unified_diff(before, after, "start", name, lineterm="", n=1))
            rows.append([own.id, own.round, own.island, own.origin, own.score, changed, own.program])
        self._log("finished", self._rounds, [{"best_programs": ("Table", columns, rows)}])

    def attach(self, paths: list[Path]) -> None:
        """Show the run's report and figures, and keep them, its configuration and its latest adapters as artifacts."""
        kinds = {".html": ("report", "Html"), ".png": ("figure", "Image")}
        shown = [(*kinds[path.suffix], str(path)) for path in paths if path.suffix in kinds]
        if not self._log("attached", self._rounds, [{name: (kind, path)} for name, kind, path in shown]):
            return
        folder = self._store.folder
        kept = [path for path in (*paths, folder / "config.yaml") if path.exists()]
        self._use(lambda run: self._keep(run, "report", "report", kept))
        tuned = [self._store.phase_folder(row["phase"]) for row in self._store.tuned_phases()[-1:]]
        if tuned and tuned[0].is_dir():
            self._use(lambda run: self._keep(run, "adapters", "model", tuned))

    def _keep(self, run: Any, name: str, kind: str, paths: list[Path]) -> None:
        artifact = self._wandb.Artifact(f"{name}-{self._id}", type=kind)
        for path in paths:
            (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
        run.log_artifact(artifact)

    def close(self) -> None:
        """Write the summary and finish the record, of a run that was stopped too."""
        self._use(lambda run: run.summary.update(final_row(self._store)))
        self._use(lambda run: run.finish())
        self._run = None

    def _log(self, axis: str, number: int, rows: list[Row]) -> bool:
        """Log rows once; False if they have been logged, or there is no tracking: a resumed run tells them again.

        That they are is noted first, so that a process killed in between loses these rows rather than logging them
        twice. A tuple in a row is what W&B shows: `Html`, `Image` or `Table`, and what that is made of.
        """
        if self._run is None or number <= self._logged[axis]:
            return False
        self._logged |= {axis: number, "step": self._step + len(rows)}
        self._store.set_meta("wandb_logged", self._logged)

        def log(run: Any, row: Row) -> None:
            shown = {name: value for name, value in row.items() if isinstance(value, tuple)}
            media = {name: getattr(self._wandb, kind)(*parts) for name, (kind, *parts) in shown.items()}
            run.log({**row, **media}, step=self._step, commit=True)

        for row in rows:
            self._use(partial(log, row=row))
            self._step += 1
        return True

    def _use(self, action: Callable[[Any], object]) -> None:
        """Do something with W&B's run, if there still is one; whatever an outage raises, ours goes on, untracked."""
        if self._run is not None:
            try:
                action(self._run)
            except Exception as error:  # noqa: BLE001  whatever W&B fails with must not end the run
                self._end(error)

    def _end(self, error: Exception) -> None:
        self._run = None
        self._warn(f"W&B tracking ended ({type(error).__name__}: {str(error)[:200]}); the run goes on.")


def choose(wandb: Any, mode: Mode) -> tuple[Literal["online", "offline", "off"], str]:
    """How a run is tracked and why, from the setting `tracking` and from what the package `wandb` was told."""
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
