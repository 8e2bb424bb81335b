"""The one scheduler of runs: some at a time, each in a process of its own, until there are no more to do.

What comes next, when a run is to be cut short and what its end means is its caller's to say: a study hands out the
runs of its plan (`plan`), a sweep asks its search (`search`).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from atlas_gym.sandbox.confinement import die_with_parent
from atlas_gym.trainers.store.store import RunStore, StoreError

GRACE_S = 60.0
"""How long a run that was asked to stop may take to put its things in order."""


@dataclass(frozen=True)
class Job:
    """One run to do."""

    folder: Path
    """The run's folder, whose name is the run's; waited for until no other process holds it."""
    command: Sequence[str]
    """What to execute."""
    environment: Mapping[str, str]
    """Its whole environment."""
    log: Path
    """Where its output goes; appended to."""


def job_of(settings: str, folder: Path, files: Path) -> Job:
    """A run of these settings (YAML), begun or continued in its folder; the settings and the log lie in `files`."""
    files.mkdir(parents=True, exist_ok=True)
    file = files / "settings.yaml"
    file.write_text(settings, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "atlas_gym.experiments.run",
        "--config",
        str(file),
        "--folder",
        str(folder),
    ]
    # One torch thread each: several runs share the cores.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return Job(folder, [*command, "--resume-if-exists"], environment, files / "log.txt")


def do_jobs(
    ask: Callable[[], Job | None],
    ended: Callable[[Job, int, bool], None],
    *,
    workers: int,
    is_hopeless: Callable[[Job], bool] = lambda job: False,
    poll_s: float = 1.0,
) -> None:
    """Do jobs until there are none to come; interrupted, stop those under way first.

    Args:
        ask: the next job, None if there is none at the moment; asked again when a run has ended.
        ended: called when a run has ended, with its exit code and whether it had been asked to stop.
        workers: runs at a time.
        is_hopeless: called for every run under way again and again; True asks it to stop.
        poll_s: seconds between two looks at the runs.

    Raises:
        StoreError: a run's folder is held by another process.
    """
    active: list[_Process] = []
    try:
        while True:
            while len(active) < workers and (job := ask()) is not None:
                active.append(_Process(job))
            if not active:
                return
            time.sleep(poll_s)  # runs are looked at, not waited for: what they have stored may end them
            for process in list(active):
                code = process.poll()
                # Also of one that has ended: what is read after the end is all there is.
                if is_hopeless(process.job) and code is None:
                    process.ask_to_stop()
                if code is not None:
                    active.remove(process)
                    ended(process.job, code, process.asked is not None)
    finally:
        for process in active:
            process.ask_to_stop()
        for process in active:
            process.wait()


class _Process:
    """A run under way."""

    def __init__(self, job: Job):
        self.job = job
        self.asked: float | None = None
        _wait_until_free(job.folder)
        with job.log.open("ab") as output:
            self._process = subprocess.Popen(
                job.command, env=dict(job.environment), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_hear_who_asks_to_stop,
            )  # fmt: skip

    def poll(self) -> int | None:
        """The exit code, None while it goes on. One that was asked to stop and has not is killed."""
        if self.asked is not None and time.monotonic() - self.asked > GRACE_S:
            self._process.kill()
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """As Ctrl-C would: a run stores what it has, closes its records and ends."""
        if self.asked is None and self._process.poll() is None:
            self.asked = time.monotonic()
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Until one that was asked to stop has; it is killed when its time is over."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE_S)
        self._process.kill()
        self._process.wait()


def _hear_who_asks_to_stop() -> None:
    # A shell starts background jobs with SIGINT ignored, and their children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A scheduler that is killed outright cannot ask anybody to stop; the kernel does it. (Linux; elsewhere the runs
    # go on to their end, and are waited for when the command is given again.)
    die_with_parent(signal.SIGINT)


def _wait_until_free(folder: Path) -> None:
    """Until no process holds a run any more: one of a killed scheduler may still be putting its things in order."""
    end = time.monotonic() + GRACE_S
    while (folder / "run.sqlite").exists():
        try:
            RunStore(folder).close()
            return
        except StoreError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)  # nobody tells when a lock is given up
