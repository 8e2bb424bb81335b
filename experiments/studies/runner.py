"""Does a study's runs, some at a time, each in a process of its own; what is finished is not done again."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from experiments.studies.plan import Plan, PlannedRun

DONE = "done"
"""A file of this name in a run's folder says that the run came to its end."""


def do_runs(plan: Plan, folder: Path, workers: int, tell: Callable[[str], None]) -> list[PlannedRun]:
    """Do or continue every run; returns those that failed.

    Args:
        plan: the study.
        folder: where the runs' folders lie.
        workers: runs at a time.
        tell: called with one line whenever a run begins or ends.
    """
    missing = [run for run in plan.runs() if not (folder / run.name / DONE).exists()]
    with ThreadPoolExecutor(workers) as pool:
        ended = pool.map(lambda run: _do(run, folder / run.name, tell), missing)
        return [run for run, succeeded in zip(missing, ended, strict=True) if not succeeded]


def _do(run: PlannedRun, folder: Path, tell: Callable[[str], None]) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.yaml"
    settings.write_text(yaml.safe_dump(run.settings()), encoding="utf-8")
    tell(f"{run.name}: begins")
    command = [sys.executable, "-m", "experiments.run", "--config", str(settings), "--folder", str(folder)]
    with open(folder / "log.txt", "a", encoding="utf-8") as log:
        code = subprocess.run(
            [*command, "--resume-if-exists"], stdout=log, stderr=log, env=_environment(), check=False
        ).returncode
    tell(f"{run.name}: " + ("done" if code == 0 else f"failed with exit code {code}, see {folder}/log.txt"))
    if code == 0:
        (folder / DONE).touch()
    return code == 0


def _environment() -> dict[str, str]:
    """One torch thread each: several runs share the cores."""
    return os.environ | {"OMP_NUM_THREADS": "1"}
