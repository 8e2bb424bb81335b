"""One run's W&B record, on a leash: it can never stop a run.

Who is logged in to W&B (`wandb login`, a key in the environment) is tracked online, everybody else offline, into the
run folder. What W&B itself was told, by `WANDB_MODE`, `WANDB_PROJECT`, `WANDB_ENTITY`, `WANDB_NAME`,
`WANDB_RUN_GROUP`, `WANDB_TAGS` or its settings files, wins over what is chosen here; only `tracking: off` is off
whatever the environment says. What was chosen is said in one line.

A missing package, a failing server or a full disk is reported once and tracking ends; the run store has everything
anyway.
"""

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from trainers.loop.config import Mode

AXES = {
    "evaluations": ("score/*",),
    "round": ("explore/*", "island/*", "status/*", "clusters/*"),
    "phase": ("phase/*", "gate/*", "probe/*", "measure/*", "strategist/*", "supporters/*"),
    "optimiser_step": ("dpo/*", "grpo/*"),
}
"""What the charts are drawn over."""
PROJECT = "atlas-gym"
_CHANGE = "Change it with `--tracking off|offline|online` or WANDB_MODE."


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
        self,
        folder: Path,
        mode: Mode,
        config: Mapping[str, Any],
        run_id: str,
        warn: Callable[[str], None] = print,
        tell: Callable[[str], None] = print,
        step: int = 0,
    ):
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
            project=theirs.project or PROJECT,
            id=run_id,
            name=theirs.run_name or folder.name,
            dir=str(folder),
            mode=chosen,
            config=dict(config),
            group=theirs.run_group or str(config.get("env", "")),
            tags=theirs.run_tags or [str(config.get("method", ""))],
            resume="allow",
            # An outage may cost a run these seconds and no more; what was not sent can be synchronised later.
            settings=wandb.Settings(silent=True, console="off", init_timeout=30, finish_timeout=120),
        )
        where = (
            self._run.url
            if chosen == "online"
            else f"files in {folder / 'wandb'}, to be sent by `wandb sync`"
        )
        self._tell(f"W&B: {chosen} ({reason}), {where}. {_CHANGE}")
        for axis, patterns in AXES.items():
            self._run.define_metric(axis)
            for pattern in patterns:
                self._run.define_metric(pattern, step_metric=axis)

    def log(self, values: Mapping[str, Any]) -> None:
        """Log one row; it must hold its axis (one of `AXES`)."""
        step, self.step = self.step, self.step + 1
        self._tell_run(lambda run: run.log(dict(values), step=step, commit=True))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Log a table, for example of the best programs."""
        data = [*map(list, rows)]
        self._tell_run(lambda _: self.log({name: self._wandb.Table(columns=list(columns), data=data)}))

    def page(self, name: str, path: Path) -> None:
        """Log a file that W&B shows: HTML as a page, anything else as a picture."""
        kind = "Html" if path.suffix == ".html" else "Image"
        self._tell_run(lambda _: self.log({name: getattr(self._wandb, kind)(str(path))}))

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
    if told in _SILENT:
        return _SILENT[told], f"W&B was told {told}"
    if os.environ.get("WANDB_MODE"):
        return "online", f"WANDB_MODE is {told}"
    if mode != "auto":
        return mode, f"tracking is {mode}"
    if wandb.login(prompt=False, verify=False):
        return "online", "logged in to W&B"
    return "offline", "not logged in: `wandb login`"


_SILENT: dict[str, Literal["offline", "off"]] = {"offline": "offline", "dryrun": "offline", "disabled": "off"}
"""W&B's modes in which nothing is sent, and what they mean here."""


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
