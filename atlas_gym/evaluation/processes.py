"""A pool of evaluator processes on this machine, one to a core; what they run is `server`."""

import contextlib
import json
import os
import pickle
import socket
import struct
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from atlas_gym.evaluation.channel import Task
from atlas_gym.evaluation.evaluator import check_confinement
from atlas_gym.evaluation.pool import Lost, Pool
from atlas_gym.evaluation.result import Evaluation, EvaluatorError
from atlas_gym.evaluation.safe_start import safe_command, safe_environment

_END_S = 5.0
"""A process that has been told to end is killed after this long."""
_LENGTH = struct.Struct("<Q")


class EvaluatorPool(Pool):
    """Evaluates programs on several cores of this machine, each in an evaluator process (see `server`).

    Example:
        with EvaluatorPool(workers=2) as pool:
            evaluations = pool.map(programs, task)
    """

    def __init__(self, workers: int = 2, *, confinement: str | Sequence[str] = "default") -> None:
        """Start the evaluator processes; they import in the background.

        Args:
            workers: Evaluations at a time (>= 1), each on one core (see `server.own_core`).
            confinement: As for `make_evaluator`; whether the machine gives it shows at the first evaluation.
        """
        check_confinement(confinement)
        super().__init__([partial(EvaluatorProcess, confinement, n, workers) for n in range(workers)])
        self._again = partial(EvaluatorPool, workers, confinement=confinement)

    def __reduce__(self) -> tuple[Callable[[], "EvaluatorPool"], tuple[()]]:
        """Pickled, e.g. within a reward function that a trainer sends to its workers, it starts processes there."""
        return self._again, ()


class EvaluatorProcess:
    """Evaluator `number` of a pool's `workers`. `subprocess` works in daemonic processes of `multiprocessing`, too."""

    def __init__(self, confinement: str | Sequence[str], number: int, workers: int) -> None:
        kind = confinement if isinstance(confinement, str) else list(confinement)
        self._process, self._connection = start_beside(
            "atlas_gym.evaluation.server", json.dumps(kind), str(number), str(workers)
        )
        self.pid = self._process.pid

    def ready(self, wait_s: float) -> None:
        """Nothing to wait for: the first evaluation waits for its imports."""

    def evaluate(self, program: str, task: Task, wait_s: float) -> Evaluation:
        message = pickle.dumps((program, task), protocol=pickle.HIGHEST_PROTOCOL)
        self._connection.settimeout(wait_s)
        try:
            send_frame(self._connection, message)
            return outcome_of(receive_frame(self._connection))
        except TimeoutError:
            raise Lost("it did not answer") from None
        except OSError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise Lost(f"it ended with exit code {self._process.wait(_END_S)}") from None
            raise Lost("it hung up") from None

    def stop(self) -> None:
        self._process.terminate()
        with contextlib.suppress(OSError):  # reaches through copies that forks of this process may hold
            self._connection.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        self.stop()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()


def start_beside(
    module: str, *arguments: str, **options: Any
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module as a trusted process with a socket to this one.

    It is given the number of its descriptor, this process's id and the arguments; `options` are `Popen`'s.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(
                safe_command(module, str(theirs.fileno()), str(os.getpid()), *arguments),
                env=safe_environment() | {"OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], start_new_session=True, **options,
            )  # fmt: skip
    except BaseException:  # nobody else would close it, not even on Ctrl-C
        ours.close()
        raise
    return process, ours


def outcome_of(answered: bytes) -> Evaluation:
    """The evaluation in an answer of `server.answer`; raises the exception in it."""
    outcome: Evaluation | EvaluatorError = pickle.loads(answered)
    if isinstance(outcome, Evaluation):
        return outcome
    raise outcome


def send_frame(connection: socket.socket, message: bytes) -> None:
    """Send one message. Raises `OSError`."""
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive_frame(connection: socket.socket) -> bytes:
    """Receive one message. Raises `OSError`, also if the other end is gone."""
    data, head = bytearray(_LENGTH.size), True
    while True:
        view, got = memoryview(data), 0
        while got < len(view):
            more = connection.recv_into(view[got:])
            if more == 0:
                raise ConnectionResetError("the other end has hung up")
            got += more
        if not head:
            return bytes(data)
        data, head = bytearray(_LENGTH.unpack(data)[0]), False


def usable_cores() -> list[int]:
    """The cores that this process may use; empty where the system keeps no process to cores (macOS, Windows)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def core_count() -> int:
    """How many evaluations this process can usefully run at a time."""
    return len(usable_cores()) or os.cpu_count() or 1
