"""What a failed evaluation is called, told from evidence that the program cannot forge.

A worker that reported its own failure is believed as far as the kind of failure goes. A worker that just
ended is judged by what the kernel said to its parent: exit status, CPU time, peak memory.
"""

import math
import os
import signal
from dataclasses import dataclass

from atlas_gym.evaluation.handles import Exit
from atlas_gym.evaluation.protocols import InfrastructureError
from atlas_gym.evaluation.result import Limits, Status
from atlas_gym.sandbox.wire import KILLED_BY_WATCHDOG, KILLED_ON_REQUEST

_NEARLY_ALL = 0.75
"""A worker that dies with this share of a budget used up is taken to have died of it."""


@dataclass(frozen=True)
class Failure:
    """Why there is no score."""

    status: Status
    """Any but ok."""
    detail: str
    """For the feedback, not yet sanitised."""


def failure_from_exit(ended: Exit, limits: Limits, baseline_bytes: int) -> Failure:
    """What it means that a worker ended like this in the middle of the conversation.

    `baseline_bytes` is the resident size that a worker starts with. Raises `InfrastructureError` if somebody
    else killed it: no limit of ours sends SIGKILL but that on CPU time, and no confined program can.
    """
    if ended.killed == KILLED_BY_WATCHDOG:
        return Failure(Status.TIMEOUT, f"no answer within {limits.wall_s:g} s")
    if ended.killed == KILLED_ON_REQUEST:
        return Failure(Status.CRASHED, "it closed the channel")
    if os.WIFEXITED(ended.status):
        return Failure(Status.CRASHED, f"it ended its process with exit code {os.WEXITSTATUS(ended.status)}")
    return _failure_from_signal(os.WTERMSIG(ended.status), ended, limits, baseline_bytes)


def _failure_from_signal(number: int, ended: Exit, limits: Limits, baseline_bytes: int) -> Failure:
    if number == signal.SIGSYS:
        return Failure(Status.VIOLATION, "it made a forbidden system call")
    # The kernel sends SIGXCPU first and SIGKILL a second later; it counts in ticks, so not quite exactly.
    cpu_used_up = number == signal.SIGKILL and ended.cpu_s >= _NEARLY_ALL * limits.cpu_s
    if number == signal.SIGXCPU or cpu_used_up:
        return Failure(Status.TIMEOUT, f"more than {math.ceil(limits.cpu_s)} s of CPU time")
    if number == signal.SIGKILL:
        raise InfrastructureError(
            "a worker was killed from outside; most likely the machine is out of memory"
        )
    if ended.peak_bytes - baseline_bytes >= _NEARLY_ALL * limits.memory_mb * 2**20:
        return Failure(Status.MEMORY, f"{_name(number)} with the budget of {limits.memory_mb} MiB used up")
    return Failure(Status.CRASHED, f"its process died of {_name(number)}")


def _name(number: int) -> str:
    """As in `SIGSEGV`; most real-time signals have a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
