"""Weights & Biases, on a leash: it watches a run and can never stop one.

Modes: `online` (needs a key), `offline` (files in the run folder, `wandb sync` later; the default without a key)
and `off`. A missing package, a failing server or a full disk is reported once and tracking ends; the run store
has everything anyway. W&B ignores `resume` offline, so the run keeps a fixed id of its own and its own counters
as x-axes (`define_metric`), which stay monotonic over a resume.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

Mode = Literal["auto", "online", "offline", "off"]

AXES = {"round": ("explore/*", "island/*", "status/*"), "phase": ("phase/*", "gate/*", "probe/*")}


def resolve_mode(mode: Mode) -> Literal["online", "offline", "off"]:
    """`auto` is online with a key in the environment, offline without one."""
    if mode == "auto":
        return "online" if os.environ.get("WANDB_API_KEY") else "offline"
    return mode


class Tracker:
    """One run's W&B record.

    Args:
        folder: the run's folder; the offline files go below it.
        mode: see the module.
        config: the run's configuration, as plain values.
        run_id: fixed id, so that a resumed run continues the same record.
        warn: called with one line if tracking has to end.
    """

    def __init__(self, folder: Path, mode: Mode, config: Mapping[str, Any], run_id: str, warn=print):
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
            settings=wandb.Settings(silent=True, console="off", init_timeout=30),
        )
        for axis, patterns in AXES.items():
            self._run.define_metric(axis)
            for pattern in patterns:
                self._run.define_metric(pattern, step_metric=axis)

    def log(self, values: Mapping[str, Any]) -> None:
        """Log one row; it must hold its axis (`round` or `phase`)."""
        if self._run is not None:
            self._guard(lambda: self._run.log(dict(values)))

    def table(self, name: str, columns: list[str], rows: list[list[Any]]) -> None:
        """Log a table, for example of the best programs."""
        if self._run is not None:
            self._guard(lambda: self._run.log({name: self._wandb.Table(columns=columns, data=rows)}))

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
