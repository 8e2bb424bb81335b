"""The trusted side's handles on a fork server and on its workers."""

import contextlib
import json
import math
import os
import select
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from atlas_gym.evaluation.channel import Channel, ChannelClosed
from atlas_gym.evaluation.result import EvaluatorError, InfrastructureError, Limits
from atlas_gym.evaluation.roots import read_roots
from atlas_gym.evaluation.worker_end import STARVED, Exit
from atlas_gym.sandbox import wire

_BOOT = Path(__file__).parents[1] / "sandbox" / "boot.py"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_ANSWER_S = 60.0
"""A fork server that has not said what it must say after this long is taken for dead."""
_START_S = 600.0
"""The same for its first word, before which it imports torch, maybe from a network drive."""


class ForkServerFailed(InfrastructureError):
    """The fork server ended unexpectedly and its workers with it, or a worker did before its program was let in."""


class WorkerHandle:
    """One worker: confined and waiting for a program, or running it."""

    def __init__(self, server: "ForkServerHandle", number: int, channel: Channel) -> None:
        self._server = server
        self._number = number
        self.channel = channel
        self.pid = 0
        """Its process id, known from `start` on."""
        self._ended: Exit | None = None

    def start(self, program: bytes, function: str, limits: Limits, core: int) -> None:
        """Hand over limits and program, and wait until the layers are on; from here on its time is bounded.

        Raises `ForkServerFailed` if the worker ends before that, or nothing is heard of it.
        """
        self._server.request(wire.ARM, self._number, STARVED * limits.wall_s)
        name = function.encode()
        budgets = (limits.memory_mb, math.ceil(limits.cpu_s), core, limits.error_chars)
        head = wire.START.pack(*budgets, len(name), len(program))
        try:
            self.channel.send(head + name + program)
            if not self.channel.readable(STARVED * limits.wall_s + _ANSWER_S):
                raise ForkServerFailed("the fork server neither forked a worker nor killed it in time")
            (self.pid,) = wire.READY.unpack(self.channel.receive(wire.READY.size))
        except ChannelClosed:
            ended = self.end()
            raise ForkServerFailed(f"a worker ended early, with wait status {ended.status}") from None

    def expire(self) -> None:
        """Have it killed now, as one whose time is up."""
        with contextlib.suppress(ForkServerFailed):  # then it is dead already
            self._server.request(wire.ARM, self._number, 0.0)

    def end(self, grace_s: float = 0.0) -> Exit:
        """Kill the worker unless it ends within `grace_s`, close the channel and say how it ended."""
        if self._ended is None:
            try:
                self._server.listen(grace_s)
                self._server.request(wire.KILL, self._number)
                self._ended = self._server.wait(self._number)
            finally:
                self.channel.close()
        return self._ended


class ForkServerHandle:
    """A running fork server for one driver. One worker is kept forked ahead of its use."""

    def __init__(
        self, driver: str, torch: bool, imports: Sequence[str] = (), *, layers: Sequence[str]
    ) -> None:
        """Start it, which takes as long as its imports. Raises `EvaluatorError` if it cannot start."""
        self._process, self._control = _start()
        self._close = weakref.finalize(self, _stop, self._process, self._control, os.getpid())
        self._exits: dict[int, Exit] = {}
        self._running: set[int] = set()
        self._last_number = 0
        self._spare: WorkerHandle | None = None
        try:
            greeting = self._greet(driver, torch, imports, layers)
        except BaseException:  # a fork server that did not come up is not left behind, not even on Ctrl-C
            self.close()
            raise
        self.layers: tuple[str, ...] = tuple(greeting["layers"])
        self.missing: dict[str, str] = greeting["missing"]
        self.resident_bytes: int = greeting["resident_bytes"]

    @property
    def pid(self) -> int:
        """Process id of the fork server."""
        return self._process.pid

    def take(self) -> WorkerHandle:
        """A worker of one's own: the one kept ready, or a new one. Raises `InfrastructureError` if there is none."""
        worker, self._spare = self._spare or self._spawn(), None
        return worker

    def prepare(self) -> None:
        """Have the next worker forked; returns at once. Raises as `take` does."""
        if self._spare is None:
            self._spare = self._spawn()

    def request(self, operation: int, number: int, seconds: float = 0.0) -> None:
        """Send a request about a worker. Raises `ForkServerFailed`."""
        try:
            self._control.sendall(wire.REQUEST.pack(operation, number, seconds))
        except OSError:
            raise ForkServerFailed("the fork server is gone") from None

    def listen(self, seconds: float) -> None:
        """Let at most `seconds` pass until there is news of a worker's end."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.poll(seconds * 1000)

    def wait(self, number: int) -> Exit:
        """How worker `number`, which has been killed, ended.

        Raises `ForkServerFailed` if the fork server does not say so in time, or says what it cannot mean.
        """
        while number not in self._exits:
            mark, ended, status, killed, cpu_s, peak = wire.EXITED.unpack(
                self._receive(wire.EXITED.size, _ANSWER_S)
            )
            known = mark == wire.EXIT_MARK and ended in self._running and killed in wire.KILLERS
            if not known or not 0 <= cpu_s < math.inf:
                raise ForkServerFailed("the fork server's control socket was written to by something else")
            self._running.remove(ended)
            self._exits[ended] = Exit(status, killed, cpu_s, peak)
        return self._exits.pop(number)

    def close(self) -> None:
        """End the fork server and its workers; a second call does nothing."""
        if self._spare is not None:
            self._spare.channel.close()
            self._spare = None
        self._close()

    def _spawn(self) -> WorkerHandle:
        self._last_number += 1
        record = wire.REQUEST.pack(wire.SPAWN, self._last_number, 0.0)
        channel, theirs = _pipes()
        self._running.add(self._last_number)
        try:
            socket.send_fds(self._control, [record], theirs)
        except OSError:
            channel.close()
            raise ForkServerFailed("the fork server is gone") from None
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return WorkerHandle(self, self._last_number, channel)

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


def _pipes() -> tuple[Channel, tuple[int, int]]:
    """Two pipes: this process's end of the channel, and the descriptors that the worker reads from and writes to."""
    ends: list[int] = []
    try:
        ends += os.pipe()
        ends += os.pipe()
    except OSError as error:  # no descriptor left
        for end in ends:
            os.close(end)
        raise InfrastructureError(f"no worker could be started: {error}") from None
    requested, request, answered, answer = ends
    return Channel(answered, request), (requested, answer)


def _start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """An environment made from nothing: no variable of the trusted process reaches a worker."""
    ours, theirs = socket.socketpair()
    ours.settimeout(_ANSWER_S)
    environment = {"LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"} | dict.fromkeys(_ONE_THREAD, "1")
    environment |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    command = [sys.executable, "-s", "-P", "-B", str(_BOOT), str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C in the terminal is the trusted process's affair
        )
    return process, ours


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
