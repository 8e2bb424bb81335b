"""The processes of a sweep's runs: started, asked to stop, and never left behind."""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainers.store.store import RunStore, StoreError

GRACE_S = 60.0
"""How long a run that was asked to stop may take to put its things in order."""
_PR_SET_PDEATHSIG = 1


class RunProcess:
    """One run under way. Its output goes to a log file.

    Args:
        command: the run's command.
        environment: its environment.
        log: where its output goes; appended to.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path):
        self._log = log
        self._asked: float | None = None
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=_stop_with_the_sweep,
            )  # fmt: skip

    def poll(self) -> int | None:
        """The exit code, None while it goes on. One that was asked to stop and has not is killed."""
        if self._asked is not None and time.monotonic() - self._asked > GRACE_S:
            self._process.kill()
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """As Ctrl-C would: a run stores what it has, closes its records and ends."""
        if self._asked is None and self._process.poll() is None:
            self._asked = time.monotonic()
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Until it has ended."""
        while self.poll() is None:
            time.sleep(0.05)

    def last_words(self) -> str:
        """The last line of its output."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""


def _stop_with_the_sweep() -> None:
    # A sweep that is killed outright cannot ask anybody to stop; the kernel does it. (Linux; elsewhere the runs go
    # on to their end, and the sweep waits for them when it is resumed.)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def wait_until_free(folder: Path, seconds: float = GRACE_S) -> None:
    """Until no process holds a run any more (one of a killed sweep may still be putting its things in order).

    Raises:
        StoreError: it is still held after `seconds`.
    """
    end = time.monotonic() + seconds
    while (folder / "run.sqlite").exists():
        try:
            RunStore(folder).close()
            return
        except StoreError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
