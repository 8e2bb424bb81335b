"""How a worker ends: when its time is up, and what its end is called.

Time in which the worker or the judging thread was ready to run and waited for a core is the machine's and does
not count; the kernel measures it (`schedstat`). Neither does time in which the trusted process was stopped (Ctrl-Z, a
suspended job): it shows in waits that take too long. Time asleep counts, so a program that sleeps ends at its limit,
and so does what the worker computes, whoever else waits meanwhile: one that dribbles an answer keeps the judge waiting
for the core that both share.
However much there was to wait for, the fork server ends the worker after `STARVED` times the limit: the trusted
side then knows that the machine, not the program, was too slow. Where the kernel does not measure, all time counts.

What a failed evaluation is called is told from evidence that the program cannot forge. A worker that reported its
own failure is believed as far as the kind of failure goes. A worker that just ended is judged by what the kernel
said to its parent: exit status, CPU time, peak memory.
"""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.evaluation.result import InfrastructureError, Limits, Status
from atlas_gym.sandbox.wire import KILLED_BY_WATCHDOG, KILLED_ON_REQUEST

STARVED = 8.0
"""An evaluation may take this many times its wall-clock limit if it waits for a core that long."""
_NANO = 1e-9
_SHORTEST_S = 0.01
_LOOKS = 16
"""The clock is looked at so often within a limit: of a stop no more than this part is taken for the program's time."""
_NEARLY_ALL = 0.75
"""A worker that dies with this share of a budget used up is taken to have died of it."""


@dataclass(frozen=True)
class Exit:
    """How a worker ended, as its parent saw it."""

    status: int
    """Wait status, as of `os.wait4`."""
    killed: int
    """Who killed it: one of the constants in `wire`. None of them if it ended by itself or by the kernel."""
    cpu_s: float
    """Seconds of CPU time it used."""
    peak_bytes: int
    """Its largest resident size."""


class Patience:
    """While the block lasts, ends the worker when it has used its wall-clock time; `expired` says whether.

    Enter it in the thread that judges.

    Args:
        pid: Of the worker.
        expire: Ends it.
        limit_s: Its wall-clock time in seconds.
    """

    def __init__(self, pid: int, expire: Callable[[], None], limit_s: float) -> None:
        self.expired = False
        self._expire = expire
        self._limit_s = limit_s
        self._over = threading.Event()
        self._statistics = (
            f"/proc/{pid}/schedstat",
            f"/proc/self/task/{threading.get_native_id()}/schedstat",
        )
        self._thread = threading.Thread(target=self._watch, name="atlas-gym-patience", daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._before = self._measured()
        try:
            self._thread.start()
        except RuntimeError as error:
            raise InfrastructureError(f"no thread could be started: {error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        left, stopped = self._limit_s, 0.0
        while left > 0:
            asked = max(min(left, self._limit_s / _LOOKS), _SHORTEST_S)
            asleep = time.monotonic()
            if self._over.wait(asked):
                return
            now = time.monotonic()
            stopped += now - asleep - asked
            computed, waited = (s - before for s, before in zip(self._measured(), self._before, strict=True))
            left = self._limit_s - max(computed, now - self._began - waited - stopped)
        self.expired = True
        self._expire()

    def _measured(self) -> tuple[float, float]:
        """Seconds that the worker has computed, and that both have waited for a core; 0 where the kernel does not
        say."""
        (computed, waited), (_, judge_waited) = map(_on_core_and_waiting_s, self._statistics)
        return computed, waited + judge_waited


def _on_core_and_waiting_s(path: str) -> tuple[float, float]:
    with contextlib.suppress(OSError, IndexError, ValueError), open(path) as statistics:
        ran, waited = statistics.read().split()[:2]
        return int(ran) * _NANO, int(waited) * _NANO
    return 0.0, 0.0


def failure_from_exit(ended: Exit, limits: Limits, baseline_bytes: int) -> CandidateError:
    """What it means that a worker ended like this in the middle of the conversation.

    `baseline_bytes` is the resident size that a worker starts with. Raises `InfrastructureError` if somebody
    else killed it: no limit of ours sends SIGKILL but that on CPU time, and no confined program can.
    """
    if os.WIFEXITED(ended.status):
        code = os.WEXITSTATUS(ended.status)
        return CandidateError(f"it ended its process with exit code {code}", Status.CRASHED)
    number = os.WTERMSIG(ended.status)
    # The kernel counts CPU time in ticks, so it may end a worker a little before its budget is used up.
    cpu_used_up = ended.cpu_s >= _NEARLY_ALL * limits.cpu_s
    # On a busy machine it may be told to die while it is dying of something else, which its status then names.
    if number == signal.SIGKILL:
        if ended.killed == KILLED_BY_WATCHDOG:
            return CandidateError(f"no answer within {limits.wall_s:g} s", Status.TIMEOUT)
        if cpu_used_up:
            return CandidateError(f"more than {math.ceil(limits.cpu_s)} s of CPU time", Status.TIMEOUT)
        if ended.killed == KILLED_ON_REQUEST:
            return CandidateError("it closed the channel", Status.CRASHED)
        raise InfrastructureError(
            "a worker was killed from outside; most likely the machine is out of memory"
        )
    if number == signal.SIGSYS:
        return CandidateError("it made a forbidden system call", Status.VIOLATION)
    try:
        name = signal.Signals(number).name
    except ValueError:  # most real-time signals have a number only
        name = f"signal {number}"
    if ended.peak_bytes - baseline_bytes >= _NEARLY_ALL * limits.memory_mb * 2**20:
        return CandidateError(f"{name} with the budget of {limits.memory_mb} MiB used up", Status.MEMORY)
    return CandidateError(f"its process died of {name}", Status.CRASHED)
