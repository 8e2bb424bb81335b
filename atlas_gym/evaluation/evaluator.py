"""Evaluators that run in this process: confined, and unconfined for those who ask for it by name.

One evaluation at a time per evaluator. Fork servers, one per driver, start at first use; afterwards the
next worker is always forked ahead. During the conversation this thread and the worker share one core,
where a step costs a sixth of what it costs across cores.
"""

import contextlib
import ctypes
import math
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from atlas_gym.evaluation.channel import CandidateError, Channel, ChannelClosed, Task
from atlas_gym.evaluation.result import (
    ATTEMPTS,
    BLAMELESS,
    ConfinementError,
    Evaluation,
    InfrastructureError,
    Judgement,
    Limits,
    Status,
)
from atlas_gym.evaluation.workers import ForkServerFailed, ForkServerHandle, clock, failure_from_exit
from atlas_gym.program_text import bare
from atlas_gym.sandbox.confinement import ALL_LAYERS
from atlas_gym.sandbox.wire import KILLED_BY_WATCHDOG
from atlas_gym.text import sanitise

DEFAULT_MINIMUM = ("rlimits", "seccomp", "landlock")
"""The layers without which a confined evaluator refuses to work."""
REMEDIES = {
    "capabilities": "run as an ordinary user, or allow the capset system call",
    "no_new_privs": "use Linux 3.5 or newer, and allow the prctl system call",
    "landlock": "use Linux 5.13 or newer with Landlock among its security modules (boot option"
    " lsm=landlock,...), install the package landlockpy, and in a container allow the landlock_* calls",
    "rlimits": "use Linux with /proc mounted",
    "seccomp": "use Linux on x86-64 or ARM64 with CONFIG_SECCOMP_FILTER, install the package seccompy, and in"
    " a container allow the seccomp system call",
}
"""What to do about a layer that a machine does not give."""
UNCONFINED_HINT = (
    "Only for programs you trust: ask for the unconfined evaluator (UnconfinedEvaluator) by name."
)
_PAUSE_S = 0.2
"""Before the next attempt: what took the memory or the processes may be gone by then."""
_GRACE_S = 0.25
"""A worker whose pipe has ended is normally dying; one that only closed it is killed after this long."""


class Evaluator:
    """What confined and unconfined evaluation share: fork servers, workers, outcomes."""

    _owner = -1  # until it is built

    def __init__(self, layers: Sequence[str], minimum_layers: Sequence[str]) -> None:
        self._layers = tuple(layers)
        self._minimum = tuple(minimum_layers)
        self._adopt()

    def evaluate(self, program: str, task: Task) -> Evaluation:
        """Run `program` on `task`; what the program does decides only the evaluation's status and score.

        Raises `InfrastructureError` if the machine spoils every attempt, `EvaluatorError` if the task's driver cannot
        be served, `ConfinementError` below the minimum of confinement, and whatever `task.judge` raises by mistake.
        """
        if self._owner != os.getpid():
            self._adopt()  # a copy made by fork must not speak through its original's sockets
        source, unfit = encode(program, task.limits)
        if unfit:
            return Evaluation(Status.INVALID, None, unfit)
        task.prepare()
        with self._lock, _no_broken_pipes():
            for attempt in range(ATTEMPTS):
                try:
                    return replace(self._attempt(source, task), retries=attempt)
                except InfrastructureError as error:
                    reason = str(error)
                    time.sleep(_PAUSE_S)
        raise InfrastructureError(f"{ATTEMPTS} attempts failed, the last one because {reason}. {BLAMELESS}")

    def close(self) -> None:
        """End the fork servers and their workers; the next evaluation would start new ones."""
        with self._lock:
            for server in self._servers.values():
                server.close()
            self._servers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._owner == os.getpid():
            self.close()

    def _adopt(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, bool, tuple[str, ...]], ForkServerHandle] = {}

    def _server(self, task: Task) -> ForkServerHandle:
        key = (task.driver, task.torch, task.imports)
        if key not in self._servers:
            if sys.platform != "linux" and self._minimum:
                reasons = dict.fromkeys(self._minimum, "this is not Linux")
                raise _unconfined(self._minimum, reasons)
            try:
                server = ForkServerHandle(*key, layers=self._layers)
            except OSError as error:  # no memory, process or descriptor left for it
                raise InfrastructureError(f"no worker could be started: {error}") from None
            lacking = [layer for layer in self._minimum if layer not in server.layers]
            if lacking:
                server.close()
                raise _unconfined(lacking, server.missing)
            self._servers[key] = server
        return self._servers[key]

    def _attempt(self, source: bytes, task: Task) -> Evaluation:
        """Run a program once, in a worker of its own. Raises `InfrastructureError` if the machine spoils it."""
        server, began = self._server(task), time.perf_counter()
        try:
            # Threads that a torch task starts would inherit the pinning and keep it.
            with contextlib.nullcontext(-1) if task.torch else _one_core() as core:
                worker = server.start(source, task.function, task.limits, core)
                try:
                    with clock(server, worker, task.limits.wall_s) as expired:
                        outcome = _judge(worker.channel, task)
                except BaseException:  # no worker outlives its evaluation, not even on Ctrl-C
                    with contextlib.suppress(ForkServerFailed):  # then it is dead already
                        server.end(worker)
                    raise
            wall_s = time.perf_counter() - began
            ended = server.end(worker, grace_s=_GRACE_S if isinstance(outcome, ChannelClosed) else 0.0)
        except ForkServerFailed:
            server.close()
            self._servers = {key: kept for key, kept in self._servers.items() if kept is not server}
            raise
        with contextlib.suppress(InfrastructureError):  # the next evaluation will meet it
            server.prepare()
        if ended.killed == KILLED_BY_WATCHDOG and not expired.is_set():
            raise InfrastructureError("the machine is too busy: an evaluation mostly waited for a core")
        if isinstance(outcome, ChannelClosed):
            outcome = failure_from_exit(ended, task.limits, server.resident_bytes)
        peak_mb = ended.peak_bytes / 2**20
        cost: dict[str, Any] = {
            "wall_s": wall_s,
            "cpu_s": ended.cpu_s,
            "peak_memory_mb": peak_mb,
            "layers": server.layers,
        }
        if isinstance(outcome, CandidateError):
            detail = sanitise(outcome.text, task.limits.error_chars)
            return Evaluation(outcome.status, None, detail, **cost)
        parts = {name: getattr(outcome, name) for name in ("metrics", "diagnosis", "traces")}
        return Evaluation(Status.OK, float(outcome.score), **parts, **cost)


class ConfinedEvaluator(Evaluator):
    """Programs run under every confinement layer that Linux gives; fewer than the minimum is an error."""

    def __init__(self, minimum_layers: Sequence[str] = DEFAULT_MINIMUM) -> None:
        """Raises `ValueError` for an unknown layer."""
        check_confinement(minimum_layers)
        super().__init__(ALL_LAYERS, minimum_layers)


class UnconfinedEvaluator(Evaluator):
    """Programs run in a process of their own with nothing but resource limits: for programs you trust.

    They can read, make and delete files and use the network. Hidden state still stays in the trusted process.
    """

    def __init__(self) -> None:
        super().__init__(("rlimits",), ())


def make_evaluator(confinement: str | Sequence[str]) -> Evaluator:
    """An evaluator by keyword: `default`, `unconfined`, or the layers that must hold. Raises ValueError for others."""
    check_confinement(confinement)
    if confinement == "unconfined":
        return UnconfinedEvaluator()
    return ConfinedEvaluator() if isinstance(confinement, str) else ConfinedEvaluator(confinement)


_shared: "weakref.WeakValueDictionary[str | tuple[str, ...], Evaluator]" = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def shared_evaluator(confinement: str | Sequence[str]) -> Evaluator:
    """The evaluator of all environments of this process with the same confinement; it ends when nobody refers to it.

    A fork server with torch takes 300 MB and seconds to start: eight environments in one `SyncVectorEnv` share one.
    """
    key = confinement if isinstance(confinement, str) else tuple(confinement)
    with _sharing:
        evaluator = _shared.get(key)
        if evaluator is None:
            evaluator = _shared[key] = make_evaluator(key)
        return evaluator


def check_confinement(confinement: str | Sequence[str]) -> None:
    """Raise `ValueError` unless `confinement` is something that `make_evaluator` understands."""
    if isinstance(confinement, str) and confinement in ("default", "unconfined"):
        return
    if isinstance(confinement, str) or not isinstance(confinement, Iterable):
        raise ValueError(f"confinement is 'default', 'unconfined' or names of layers, got {confinement!r}")
    if unknown := set(confinement) - set(ALL_LAYERS):
        raise ValueError(f"unknown layers {sorted(unknown)}; there are {', '.join(ALL_LAYERS)}")


def lack(layer: str, reasons: Mapping[str, str]) -> str:
    """Why a layer is not there, as far as `reasons` has it, and what to do."""
    return f"{reasons.get(layer, 'it was put on, but does not hold')}. To fix: {REMEDIES[layer]}."


def _unconfined(lacking: Sequence[str], reasons: Mapping[str, str]) -> ConfinementError:
    lines = [f"this machine does not give the required confinement layers {', '.join(lacking)}:"]
    lines += [f"- {layer}: {lack(layer, reasons)}" for layer in lacking]
    lines.append("`python -m atlas_gym doctor` lists what there is. " + UNCONFINED_HINT)
    return ConfinementError("\n".join(lines))


def encode(program: str, limits: Limits) -> tuple[bytes, str]:
    """The program in UTF-8, without a byte-order mark or the fence of a code block, or why it cannot be one."""
    if not isinstance(program, str):
        return b"", f"a program is text, not {type(program).__name__}"
    program = bare(program)
    if len(program) > limits.source_chars:
        return b"", f"it has {len(program)} characters; {limits.source_chars} are allowed"
    try:
        return program.encode(), ""
    except UnicodeEncodeError:
        return b"", "it is not valid Unicode"


def _judge(channel: Channel, task: Task) -> Judgement | CandidateError | ChannelClosed:
    """The task's judgement; a `CandidateError`, or `ChannelClosed` if the worker ended in the middle."""
    try:
        judgement = task.judge(channel)
        if not math.isfinite(judgement.score):
            return CandidateError("its score is not a finite number")
        if channel.unread():
            return CandidateError("it wrote to the channel itself", Status.VIOLATION)
        return judgement
    except (CandidateError, ChannelClosed) as error:
        return error


@contextlib.contextmanager
def _one_core() -> Iterator[int]:
    """Keep this thread on the core it is on, for as long as the block lasts; -1 where that cannot be done."""
    if not hasattr(os, "sched_setaffinity"):
        yield -1
        return
    allowed = os.sched_getaffinity(0)
    core = ctypes.CDLL(None).sched_getcpu()
    if core not in allowed:
        yield -1
        return
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def _no_broken_pipes() -> Iterator[None]:
    """In the block a worker that hangs up is an error, also where the process has SIGPIPE end it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        yield
    finally:
        if signal.SIGPIPE in signal.sigpending() - before:
            signal.sigwait({signal.SIGPIPE})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
