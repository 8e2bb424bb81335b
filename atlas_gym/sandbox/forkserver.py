"""The fork server: a clean process that imports once and forks a worker per evaluation in milliseconds.

Started by `boot.py`. It reads a JSON configuration from the control socket, imports numpy (and torch) and
the driver, confines itself, and then serves three requests: fork a worker on two pipe ends, start a
worker's clock, kill a worker. It reports every worker's end. It is also the watchdog: a worker whose time
is up is killed here, by its parent, so the process id cannot have been reused. It never sees a program, a
seed or a score. When the control socket closes, or the trusted process dies, it kills its workers and ends.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atlas_gym.sandbox import imports, wire, worker
from atlas_gym.sandbox.confinement import Confinement, held_layers, refuse_debuggers

_LIKELY_IMPORTS = """
    bisect collections contextlib copy dataclasses decimal enum fractions functools heapq itertools json math
    operator random re statistics string time typing warnings encodings.ascii encodings.idna
    numpy.fft numpy.lib.stride_tricks numpy.linalg numpy.ma numpy.polynomial numpy.random scipy
"""
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes per unit of `ru_maxrss`."""


@dataclass
class _Worker:
    """A forked worker that has not ended yet."""

    number: int  # as given by the trusted side
    deadline: float = float("inf")  # on the monotonic clock
    killed: int = wire.NOT_KILLED  # who has killed it, if anybody here did


class ForkServer:
    """The serving loop over one control socket."""

    def __init__(
        self, control: socket.socket, parent: int, serve: Callable[..., None], confinement: Confinement
    ) -> None:
        self._control = control
        # Readable when the trusted process dies, whose forks would hold the control socket open beyond its death.
        self._parent = os.pidfd_open(parent) if hasattr(os, "pidfd_open") else None
        self._serve = serve
        self._confinement = confinement
        self._workers: dict[int, _Worker] = {}
        self._wake_read, wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Serve until the control socket closes."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        if self._parent is not None:
            poll.register(self._parent, select.POLLIN)
        while True:
            nearest = min((w.deadline for w in self._workers.values()), default=float("inf"))
            left_ms = (nearest - time.monotonic()) * 1000
            for descriptor, _ in poll.poll(None if nearest == float("inf") else max(0, int(left_ms) + 1)):
                if descriptor == self._wake_read:
                    self._report_ended()
                elif descriptor == self._parent or not self._handle_request():
                    for pid in self._workers:
                        _kill_group(pid)
                    return
            now = time.monotonic()
            for pid, running in self._workers.items():
                if now >= running.deadline:
                    running.killed, running.deadline = wire.KILLED_BY_WATCHDOG, float("inf")
                    _kill_group(pid)

    def _handle_request(self) -> bool:
        try:
            request, descriptors, _, _ = socket.recv_fds(self._control, wire.REQUEST.size, 2)
        except ConnectionError:  # it closed without having read our last reports
            return False
        if not request:
            return False
        request += self._control.recv(wire.REQUEST.size - len(request), socket.MSG_WAITALL)
        operation, number, seconds = wire.REQUEST.unpack(request)
        if operation == wire.SPAWN:
            self._spawn(number, *descriptors)
            return True
        for pid, running in self._workers.items():
            if running.number == number and operation == wire.ARM:
                running.deadline = time.monotonic() + seconds
            elif running.number == number and operation == wire.KILL:
                running.killed = running.killed or wire.KILLED_ON_REQUEST
                _kill_group(pid)
        return operation in (wire.ARM, wire.KILL)

    def _spawn(self, number: int, read_fd: int, write_fd: int) -> None:
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            try:
                worker.run(read_fd, write_fd, self._serve, self._confinement)
            finally:
                os._exit(wire.WORKER_NOT_READY)
        os.close(read_fd)
        os.close(write_fd)
        if pid > 0:
            self._workers[pid] = _Worker(number)
        else:
            self._send_exit(number, wire.FORK_FAILED, wire.NOT_KILLED, 0.0, 0)

    def _report_ended(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        while self._workers:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            ended = self._workers.pop(pid)
            peak = usage.ru_maxrss * _MAXRSS_UNIT
            self._send_exit(ended.number, status, ended.killed, usage.ru_utime + usage.ru_stime, peak)

    def _send_exit(self, number: int, status: int, killed: int, cpu_s: float, peak: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # the next poll sees the closed socket
            self._control.sendall(wire.EXITED.pack(wire.EXIT_MARK, number, status, killed, cpu_s, peak))


class UnfitImport(RuntimeError):
    """What a task wants imported cannot be there in a process that forks."""


def _kill_group(pid: int) -> None:
    """A worker leads a session of its own, so its group is what it started, where it could start anything."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)  # not yet a group leader if it was forked just now


def main(control_fd: int, stub_packages: Callable[[str, Path], None]) -> None:
    """Be the fork server on this control socket, until it closes; `stub_packages` is `boot`'s."""
    # Whoever starts this may have blocked any signals, or ignore the ends of its children.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    control = _only_descriptor(control_fd)
    with contextlib.suppress(ConnectionError):  # the trusted side was killed, and nobody is left to be told
        (length,) = wire.LENGTH.unpack(_receive(control, wire.LENGTH.size))
        config = json.loads(_receive(control, length))
        try:
            stub_packages(config["driver"], Path(config["driver_file"]))
            server, greeting = _prepare(control, config)
        except UnfitImport as error:
            _send_json(control, {"error": str(error)})
            return
        except Exception:  # noqa: BLE001 - the trusted side reports it
            _send_json(control, {"error": traceback.format_exc()})
            return
        _send_json(control, greeting)
        server.run()


def _only_descriptor(control_fd: int) -> socket.socket:
    """The control socket as the first descriptor after the standard ones; all later ones lie below `DESCRIPTORS`.

    A worker which closes all of those therefore closes all there are.
    """
    first = 3
    if control_fd != first:
        os.dup2(control_fd, first, inheritable=False)
        os.close(control_fd)
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = worker.DESCRIPTORS if allowed == resource.RLIM_INFINITY else min(worker.DESCRIPTORS, allowed)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return socket.socket(fileno=first)


def _prepare(control: socket.socket, config: dict[str, Any]) -> tuple[ForkServer, dict[str, Any]]:
    sys.path.extend(p for p in config["path"] if p not in sys.path)
    serve = _import_all(config["driver"], config["torch"], config["imports"])
    refuse_debuggers()
    confinement = Confinement(config["layers"], config["read_roots"])
    confinement.enter()
    if "landlock" in config["layers"]:
        imports.hide_other_packages()
    held, resident = held_layers(confinement)
    layers = [layer for layer in held if layer in config["layers"]]
    gc.collect()
    gc.freeze()  # the workers' collections leave these objects alone, so their pages stay shared
    greeting = {"layers": layers, "missing": confinement.missing, "resident_bytes": resident * _MAXRSS_UNIT}
    return ForkServer(control, config["parent"], serve, confinement), greeting


def _import_all(driver: str, with_torch: bool, further: list[str]) -> Callable[..., None]:
    """Import, and use once, what programs are likely to need: a worker then finds it ready."""
    for name in (*_LIKELY_IMPORTS.split(), *further):
        importlib.import_module(name)
        _require_one_thread(name)
    np.linalg.inv(np.linalg.solve(np.eye(3), np.eye(3)))
    if with_torch:
        import torch

        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)
        layer = torch.nn.Linear(2, 2)
        torch.tanh(layer(torch.ones(2, 2))).mean()  # no backward: its engine must start in the worker
    serve: Callable[..., None] = importlib.import_module(driver).serve
    _require_one_thread(driver)
    return serve


def _require_one_thread(imported: str) -> None:
    """A fork copies one thread only; locks held by others would stay locked in every worker."""
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) != 1:
        raise UnfitImport(
            f"{imported} started threads while it was imported, and programs would run without them: it can be neither"
            " the driver nor among the `imports` of a task"
        )


def _receive(control: socket.socket, n: int) -> bytes:
    data = control.recv(n, socket.MSG_WAITALL)
    if len(data) < n:
        raise ConnectionResetError("the trusted side has hung up")
    return data


def _send_json(control: socket.socket, message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    control.sendall(wire.LENGTH.pack(len(text)) + text)
