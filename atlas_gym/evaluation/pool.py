"""Many evaluations at a time on this machine: a scheduler over evaluator processes, one to a core.

The caller's process only queues and collects: its interpreter lock is never inside a step loop. A program that hangs
holds one evaluator until its own limit and no other. The process's own side is `server`; both ends of the socket
between them are trusted, and no worker has either.
"""

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

from atlas_gym.evaluation.evaluator import check_confinement
from atlas_gym.evaluation.protocols import EvaluatorError, Lost, Task
from atlas_gym.evaluation.result import Evaluation
from atlas_gym.evaluation.safe_start import safe_command, safe_environment
from atlas_gym.evaluation.scheduler import Pool

_LENGTH = struct.Struct("<Q")
_PATIENCE_S = 5.0
"""A process that has been told to end is killed after this long."""


class EvaluatorPool(Pool):
    """Evaluates programs on several cores of this machine.

    Example:
        with EvaluatorPool(workers=2) as pool:
            evaluations = pool.map(programs, task)
    """

    def __init__(self, workers: int = 2, *, confinement: str | Sequence[str] = "default") -> None:
        """Start the evaluator processes; they import in the background.

        Args:
            workers: Evaluations at a time (>= 1). Each keeps to one core: with one for every core to its own, otherwise
                to one where the fewest others of this machine are.
            confinement: As for `make_evaluator`; whether the machine gives it shows at the first evaluation.
        """
        check_confinement(confinement)
        super().__init__([partial(LocalEvaluator, confinement, (n, workers)) for n in range(workers)])
        self._again = partial(EvaluatorPool, workers, confinement=confinement)

    def __reduce__(self) -> tuple[Callable[[], "EvaluatorPool"], tuple[()]]:
        """Pickled, e.g. within a reward function that a trainer sends to its workers, it starts processes there."""
        return self._again, ()


class LocalEvaluator:
    """A `RemoteEvaluator`. `subprocess` lets it work in the daemonic processes of `multiprocessing`, too.

    Args:
        confinement: as for `make_evaluator`.
        place: its number in its pool, from 0, and how many the pool has.
    """

    def __init__(self, confinement: str | Sequence[str], place: tuple[int, int]) -> None:
        kind = confinement if isinstance(confinement, str) else list(confinement)
        self._process, self._connection = start_beside(
            "atlas_gym.evaluation.server", json.dumps(kind), *map(str, place)
        )

    @property
    def pid(self) -> int:
        """Process id of the evaluator process."""
        return self._process.pid

    def ready(self, wait_s: float) -> None:
        """See `RemoteEvaluator`. Its imports are waited for by the first evaluation."""
        if self._process.poll() is not None:
            raise Lost(self._how_it_ended())

    def evaluate(self, program: str, task: Task, wait_s: float) -> Evaluation:
        """See `RemoteEvaluator`."""
        self._connection.settimeout(wait_s)
        return ask(self._exchange, program, task)

    def stop(self) -> None:
        """See `RemoteEvaluator`."""
        self._process.terminate()
        with contextlib.suppress(OSError):  # reaches through copies that forks of this process may hold
            self._connection.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """See `RemoteEvaluator`."""
        self.stop()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()

    def _exchange(self, message: bytes) -> bytes:
        try:
            send_frame(self._connection, message)
            return receive_frame(self._connection)
        except TimeoutError:
            raise Lost("it did not answer") from None
        except OSError:
            raise Lost(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"it ended with exit code {self._process.wait(_PATIENCE_S)}"
        return "it hung up"


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


def ask(exchange: Callable[[bytes], bytes], program: str, task: Task) -> Evaluation:
    """Evaluate on the service at the other end of `exchange`. Raises what either of them raises."""
    outcome: Evaluation | EvaluatorError = pickle.loads(exchange(pickled((program, task))))
    if isinstance(outcome, Evaluation):
        return outcome
    raise outcome


def pickled(message: object) -> bytes:
    """A message between trusted processes."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def send_frame(connection: socket.socket, message: bytes) -> None:
    """Send one message. Raises `OSError`."""
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive_frame(connection: socket.socket) -> bytes:
    """Receive one message. Raises `OSError`, in particular if the other end closed, died or broke off."""
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, n: int) -> bytes:
    data = bytearray(n)
    view, got = memoryview(data), 0
    while got < n:
        more = connection.recv_into(view[got:])
        if more == 0:
            raise ConnectionResetError("the other end has hung up")
        got += more
    return bytes(data)


def usable_cores() -> list[int]:
    """The cores that this process may use; empty where the system keeps no process to cores (macOS, Windows)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def core_count() -> int:
    """How many evaluations this process can usefully run at a time."""
    return len(usable_cores()) or os.cpu_count() or 1
