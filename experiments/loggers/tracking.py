"""Weights & Biases, on a leash: it watches a run and can never stop one.

Modes: `online` (needs a key), `offline` (files in the run folder, `wandb sync` later; the default without a key)
and `off`. A missing package, a failing server or a full disk is reported once and tracking ends; the run store
has everything anyway. W&B ignores `resume` offline, so the run keeps a fixed id of its own, its own step, and its
own counters as x-axes (`define_metric`), all of which stay monotonic over a resume.

In a sweep the agent names the run and its mode through the environment, and is heard.
"""

import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from trainers.loop.config import Mode

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
