"""What a failed evaluation is called, told from evidence that the program cannot forge.

A worker that reported its own failure is believed as far as the kind of failure goes. A worker that just
ended is judged by what the kernel said to its parent: exit status, CPU time, peak memory.
"""

import math
import os
import signal
from dataclasses import dataclass

from atlas_gym.evaluation.result import Limits, Status
from atlas_gym.evaluation.workers import Exit

_NEARLY_ALL = 0.75
"""A worker that dies with this share of its budget resident is taken to have died of it."""
_CPU_TICK_S = 0.1


@dataclass(frozen=True)
class Failure:
    """Why there is no score."""

    status: Status
    """Any but ok."""
    detail: str
    """For the feedback, not yet sanitised."""


def failure_from_exit(ended: Exit, limits: Limits, baseline_bytes: int) -> Failure:
    """What it means that a worker ended like this in the middle of the conversation.

    `baseline_bytes` is the resident size that a worker starts with.
    """
    if ended.timed_out:
        return Failure(Status.TIMEOUT, f"no answer within {limits.wall_s:g} s")
    if os.WIFEXITED(ended.status):
        return Failure(Status.CRASHED, f"it ended its process with exit code {os.WEXITSTATUS(ended.status)}")
    name = signal.Signals(os.WTERMSIG(ended.status)).name
    if name == "SIGSYS":
        return Failure(Status.VIOLATION, "it made a forbidden system call")
    if name in ("SIGKILL", "SIGXCPU") and ended.cpu_s >= math.ceil(limits.cpu_s) - _CPU_TICK_S:
        return Failure(Status.TIMEOUT, f"more than {math.ceil(limits.cpu_s)} s of CPU time")
    if ended.peak_bytes - baseline_bytes >= _NEARLY_ALL * limits.memory_mb * 2**20:
        return Failure(Status.MEMORY, f"{name} with the budget of {limits.memory_mb} MiB used up")
    return Failure(Status.CRASHED, f"its process died of {name}")
