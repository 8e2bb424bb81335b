"""Workers as the trusted side sees them: the fork server that makes them, their clock, and what their end means.

Time in which the worker or the judging thread waited for a core does not count, as far as the kernel measures it
(`schedstat`), nor time in which the trusted process was stopped (Ctrl-Z), which shows in waits that take too long. Time
asleep counts, and so does what the worker computes: a program that dribbles an answer keeps the judge waiting for the
core that both share. After `STARVED` times the limit the fork server ends the worker in any case.

The status of a failed evaluation rests on evidence that a program cannot forge. A failure that the worker reports is
believed as far as its kind goes; a worker that just ended is judged by what the kernel told its parent.
"""

import contextlib
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from atlas_gym.evaluation.channel import CandidateError, Channel, ChannelClosed
from atlas_gym.evaluation.result import STARVED, EvaluatorError, InfrastructureError, Limits, Status
from atlas_gym.evaluation.roots import read_roots
from atlas_gym.sandbox import wire

_BOOT = Path(__file__).parents[1] / "sandbox" / "boot.py"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_ANSWER_S = 60.0
"""A fork server that does not answer within this is taken for dead."""
_START_S = 600.0
"""As `_ANSWER_S`, for its first word, before which it imports torch, maybe from a network drive."""
_SHORTEST_S, _LOOKS = 0.01, 16
"""The clock is looked at `_LOOKS` times within a limit: of a stop no more than this part counts."""
_NEARLY_ALL = 0.75
"""A worker that dies with this share of a budget used up has died of it."""


class ForkServerFailed(InfrastructureError):
    """The fork server and its workers ended unexpectedly, or a worker did before its program was let in."""


@dataclass(frozen=True)
class Exit:
    """How a worker ended, as its parent saw it."""

    status: int  # wait status, as of `os.wait4`
    killed: int  # who killed it, one of `wire.KILLERS`
    cpu_s: float  # seconds of CPU time it used
    peak_bytes: int  # its largest resident size


@dataclass
class Worker:
    """A worker that waits for a program, or runs it."""

    number: int
    channel: Channel
    pid: int = 0  # its process id, known once it is started


class ForkServerHandle:
    """A running fork server for one driver, which always has one worker forked ahead of its use."""

    def __init__(
        self, driver: str, torch: bool, imports: Sequence[str] = (), *, layers: Sequence[str]
    ) -> None:
        """Start it, which takes as long as its imports. Raises `EvaluatorError` if it cannot start."""
        # An environment made from nothing: no variable of this process reaches a worker.
        environment = {"LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"} | dict.fromkeys(
            _ONE_THREAD, "1"
        )
        environment |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_ANSWER_S)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-B", str(_BOOT), str(theirs.fileno())],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal is the trusted process's affair
            )
        self.pid = process.pid
        self._close = weakref.finalize(self, _stop, process, self._control, os.getpid())
        self._running: set[int] = set()
        self._exits: dict[int, Exit] = {}
        self._last_number = 0
        self._spare: Worker | None = None
        try:
            greeting = self._greet(driver, torch, imports, layers)
        except BaseException:  # a fork server that did not come up is not left behind, not even on Ctrl-C
            self.close()
            raise
        self.layers: tuple[str, ...] = tuple(greeting["layers"])
        self.missing: dict[str, str] = greeting["missing"]
        self.resident_bytes: int = greeting["resident_bytes"]

    def prepare(self) -> Worker:
        """The next worker, forked ahead of its use. Raises `InfrastructureError` if there is none to be had."""
        if self._spare is not None:
            return self._spare
        ends: list[int] = []
        try:
            ends += os.pipe()
            ends += os.pipe()
        except OSError as error:  # no descriptor left
            for end in ends:
                os.close(end)
            raise InfrastructureError(f"no worker could be started: {error}") from None
        requested, request, answered, answer = ends
        channel = Channel(answered, request)
        self._last_number += 1
        self._running.add(self._last_number)
        try:
            record = wire.REQUEST.pack(wire.SPAWN, self._last_number, 0.0)
            socket.send_fds(self._control, [record], (requested, answer))
        except OSError:
            channel.close()
            raise ForkServerFailed("the fork server is gone") from None
        finally:
            os.close(requested)
            os.close(answer)
        self._spare = Worker(self._last_number, channel)
        return self._spare

    def start(self, program: bytes, function: str, limits: Limits, core: int) -> Worker:
        """A worker, its layers on, with limits and program; from here on its time is bounded.

        Raises `InfrastructureError` if there is none, ends before that, or nothing is heard of it.
        """
        worker, self._spare = self.prepare(), None
        try:
            self.request(wire.ARM, worker.number, STARVED * limits.wall_s)
            name = function.encode()
            budgets = (limits.memory_mb, math.ceil(limits.cpu_s), core, limits.error_chars)
            worker.channel.send(wire.START.pack(*budgets, len(name), len(program)) + name + program)
            if not worker.channel.readable(STARVED * limits.wall_s + _ANSWER_S):
                raise ForkServerFailed("the fork server neither forked a worker nor killed it in time")
            (worker.pid,) = wire.READY.unpack(worker.channel.receive(wire.READY.size))
        except ChannelClosed:
            ended = self.end(worker)
            raise ForkServerFailed(f"a worker ended early, with wait status {ended.status}") from None
        except BaseException:  # no worker outlives its evaluation, not even on Ctrl-C
            with contextlib.suppress(ForkServerFailed):  # then it is dead already
                self.end(worker)
            raise
        return worker

    def request(self, operation: int, number: int, seconds: float = 0.0) -> None:
        try:
            self._control.sendall(wire.REQUEST.pack(operation, number, seconds))
        except OSError:
            raise ForkServerFailed("the fork server is gone") from None

    def end(self, worker: Worker, grace_s: float = 0.0) -> Exit:
        """Kill a worker unless it ends within `grace_s`, close its channel and say how it ended.

        Raises `ForkServerFailed` if the fork server does not say so in time, or says what it cannot mean.
        """
        try:
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            poll.poll(grace_s * 1000)
            self.request(wire.KILL, worker.number)
            while worker.number not in self._exits:
                report = self._receive(wire.EXITED.size, _ANSWER_S)
                mark, ended, status, killed, cpu_s, peak = wire.EXITED.unpack(report)
                known = mark == wire.EXIT_MARK and ended in self._running and killed in wire.KILLERS
                if not known or not 0 <= cpu_s < math.inf:
                    raise ForkServerFailed(
                        "the fork server's control socket was written to by something else"
                    )
                self._running.remove(ended)
                self._exits[ended] = Exit(status, killed, cpu_s, peak)
            return self._exits.pop(worker.number)
        finally:
            worker.channel.close()

    def close(self) -> None:
        """End the fork server and its workers; a second call does nothing."""
        if self._spare is not None:
            self._spare.channel.close()
            self._spare = None
        self._close()

    def _greet(
        self, driver: str, torch: bool, imports: Sequence[str], layers: Sequence[str]
    ) -> dict[str, Any]:
        spec = find_spec(driver)
        if spec is None or spec.origin is None:
            raise EvaluatorError(f"there is no driver module {driver}")
        config: dict[str, Any] = {"parent": os.getpid()}
        config |= {"driver": driver, "driver_file": spec.origin, "layers": list(layers)}
        config |= {"torch": torch, "imports": list(imports)}
        config |= {"path": [p for p in sys.path if p and os.path.isdir(p)], "read_roots": read_roots()}
        text = json.dumps(config).encode()
        self._control.sendall(wire.LENGTH.pack(len(text)) + text)
        (length,) = wire.LENGTH.unpack(self._receive(wire.LENGTH.size, _START_S))
        if length > wire.GREETING_BYTES:
            raise ForkServerFailed("the fork server's greeting is none")
        greeting: dict[str, Any] = json.loads(self._receive(length, _ANSWER_S))
        if "error" in greeting:
            raise EvaluatorError(f"the fork server could not start:\n{greeting['error']}")
        return greeting

    def _receive(self, n: int, patience_s: float) -> bytes:
        """The fork server's next `n` bytes. Raises `ForkServerFailed` if they are not all there in time."""
        data, deadline = b"", time.monotonic() + patience_s
        with contextlib.suppress(OSError):
            while len(data) < n and (left := deadline - time.monotonic()) > 0:
                self._control.settimeout(left)
                part = self._control.recv(n - len(data))
                if not part:
                    break
                data += part
        if len(data) != n:
            raise ForkServerFailed("the fork server is gone, or silent")
        return data


def _stop(process: subprocess.Popen[bytes], control: socket.socket, owner: int) -> None:
    """Closing the socket ends the fork server and its workers. In a forked copy of the owner: only let go."""
    if os.getpid() != owner:
        control.close()
        return
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)  # reaches through copies that forks of this process may hold
    control.close()
    try:
        process.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def clock(server: ForkServerHandle, worker: Worker, limit_s: float) -> Iterator[threading.Event]:
    """While the block lasts, end the worker once it has used its wall-clock time; the event says that it had to.

    Enter it in the thread that judges.
    """
    expired, over = threading.Event(), threading.Event()
    schedules = f"/proc/{worker.pid}/schedstat", f"/proc/self/task/{threading.get_native_id()}/schedstat"
    began, before = time.monotonic(), _schedules(*schedules)

    def watch() -> None:
        left, stopped = limit_s, 0.0
        while left > 0:
            asked = max(min(left, limit_s / _LOOKS), _SHORTEST_S)
            asleep = time.monotonic()
            if over.wait(asked):
                return
            now = time.monotonic()
            stopped += now - asleep - asked
            computed, waited = (s - b for s, b in zip(_schedules(*schedules), before, strict=True))
            left = limit_s - max(computed, now - began - waited - stopped)
        expired.set()
        with contextlib.suppress(ForkServerFailed):  # then the worker is dead already
            server.request(wire.ARM, worker.number, 0.0)

    thread = threading.Thread(target=watch, name="atlas-gym-clock", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise InfrastructureError(f"no thread could be started: {error}") from None
    try:
        yield expired
    finally:
        over.set()
        thread.join()


def _schedules(worker: str, judge: str) -> tuple[float, float]:
    """Seconds that the worker has computed, and that both have waited for a core; 0 where the kernel says nothing."""
    found = []
    for path in (worker, judge):
        try:
            with open(path) as schedule:
                ran, waited = schedule.read().split()[:2]
            found.append((int(ran) * 1e-9, int(waited) * 1e-9))
        except (OSError, ValueError):
            found.append((0.0, 0.0))
    (computed, worker_waited), (_, judge_waited) = found
    return computed, worker_waited + judge_waited


def failure_from_exit(ended: Exit, limits: Limits, baseline_bytes: int) -> CandidateError:
    """The failure of a program whose worker, of `baseline_bytes` at its start, ended in the middle of the conversation.

    Raises `InfrastructureError` if it was killed from outside: no limit but that on CPU time sends SIGKILL.
    """
    if os.WIFEXITED(ended.status):
        code = os.WEXITSTATUS(ended.status)
        return CandidateError(f"it ended its process with exit code {code}", Status.CRASHED)
    number = os.WTERMSIG(ended.status)
    # On a busy machine it may be told to die while it is dying of something else, which its status then names.
    if number == signal.SIGKILL:
        if ended.killed == wire.KILLED_BY_WATCHDOG:
            return CandidateError(f"no answer within {limits.wall_s:g} s", Status.TIMEOUT)
        # The kernel counts CPU time in ticks, so it may end a worker a little before its budget is used up.
        if ended.cpu_s >= _NEARLY_ALL * limits.cpu_s:
            return CandidateError(f"more than {math.ceil(limits.cpu_s)} s of CPU time", Status.TIMEOUT)
        if ended.killed == wire.KILLED_ON_REQUEST:
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
