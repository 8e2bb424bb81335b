"""A study's runs, some at a time, each in a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from atlas_gym import yaml_text
from atlas_gym.experiments.studies.plan import Plan, PlannedRun
from atlas_gym.hidden_streams import SECRET_VARIABLE
from atlas_gym.sandbox.confinement import die_with_parent
from atlas_gym.trainers.loop.config import changes, load_config
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore, StoreError

DONE = "done"
"""A file of this name in a run's folder says that the run came to its end."""
GRACE_S = 60.0
"""How long a run that was asked to stop may take to put its things in order."""
POLL_S = 1.0


def do_runs(
    plan: Plan, folder: Path, workers: int, tell: Callable[[str], None], known: Collection[str] = ()
) -> list[PlannedRun]:
    """Do or continue every run, in `folder`, that has not come to its end, or is to have more rounds by now, `workers`
    at a time; returns those that failed. Interrupted, stop those under way first. `tell`: takes a line whenever a run
    begins or ends. `known`: names of runs that need not be done. Raises `SettingsError` if a run was done with other
    settings than the plan's, `StoreError` if another process holds one."""
    waiting = [run for run in plan.runs() if run.name not in known and not has_ended(folder / run.name, run)]
    active: dict[subprocess.Popen[bytes], PlannedRun] = {}
    failed = []
    try:
        while waiting or active:
            while waiting and len(active) < workers:
                run = waiting.pop(0)
                tell(f"{run.name}: begins")
                active[_begin(run, folder / run.name)] = run
            time.sleep(POLL_S)
            for process in [process for process in active if process.poll() is not None]:
                run = active.pop(process)
                if process.returncode == 0:
                    (folder / run.name / DONE).touch()
                    tell(f"{run.name}: done")
                else:
                    failed.append(run)
                    log = folder / run.name / "log.txt"
                    tell(f"{run.name}: failed with exit code {process.returncode}, see {log}")
    finally:
        for process in active:
            process.send_signal(signal.SIGINT)  # as Ctrl-C: a run stores what it has and ends
        for process in active:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE_S)
            process.kill()
            process.wait()
    return failed


def _begin(run: PlannedRun, place: Path) -> "subprocess.Popen[bytes]":
    """Begin a run or go on with it; settings and log lie in its folder."""
    place.mkdir(parents=True, exist_ok=True)
    (place / DONE).unlink(missing_ok=True)
    end = time.monotonic() + GRACE_S
    # One of a killed scheduler may still be putting its things in order.
    while (place / "run.sqlite").exists():
        try:
            RunStore(place).close()
            break
        except StoreError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
    settings = place / "settings.yaml"
    settings.write_text(yaml_text.dump(run.settings), encoding="utf-8")
    command = [sys.executable, "-m", "atlas_gym.experiments.run", "--config", str(settings)]
    with (place / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [*command, "--folder", str(place), "--resume-if-exists"],
            env=os.environ
            | {"OMP_NUM_THREADS": "1"}  # several runs share the cores
            | ({SECRET_VARIABLE: run.secret} if run.secret else {}),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=_hear_who_asks_to_stop,
        )  # fmt: skip


def _hear_who_asks_to_stop() -> None:
    # A shell starts background jobs with SIGINT ignored, and their children inherit that. A scheduler that is killed
    # outright cannot ask anybody to stop; the kernel does it (on Linux).
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent(signal.SIGINT)


def has_ended(place: Path, run: PlannedRun) -> bool:
    """The run came to its end, and has as many rounds as the plan asks for; SettingsError if it is another plan's."""
    if not (place / DONE).exists():
        return False
    wanted = run.config()
    try:
        begun = load_config(place / "config.yaml", {})
    except SettingsError:  # another release's: what it has come to can be read, but it cannot go on
        return True
    if changed := changes(begun, replace(wanted, rounds=begun.rounds)):
        raise SettingsError(
            f"{place} was done with other settings ({changed}): move it away, or give the study another name"
        )
    return begun.rounds >= wanted.rounds
