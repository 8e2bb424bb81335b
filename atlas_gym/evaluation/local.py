"""One lane of a pool: a referee process, replaced when it dies, and the thread that talks to it."""

import contextlib
import json
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from atlas_gym.evaluation.evaluator import ATTEMPTS
from atlas_gym.evaluation.frames import PeerGone, receive_frame, send_frame
from atlas_gym.evaluation.handles import EvaluatorError, InfrastructureError
from atlas_gym.evaluation.patience import STARVED
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.remedies import BLAMELESS
from atlas_gym.evaluation.result import Evaluation, Limits
from atlas_gym.evaluation.safe_start import safe_command, safe_environment

_BACKSTOP_S = 120.0
"""A referee that is silent for this long beyond all its attempts is replaced (its imports count too)."""
_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Job:
    """One program to evaluate."""

    program: str
    """The text."""
    task: Task
    """What to evaluate it on."""
    future: "Future[Evaluation]"
    """Where the outcome goes."""


class Lane:
    """Takes jobs from a queue that all lanes share, until it finds None there or is stopped."""

    def __init__(
        self, jobs: "queue.SimpleQueue[Job | None]", core: int, confinement: str | Sequence[str]
    ) -> None:
        self._jobs = jobs
        self._core = core
        self._confinement = confinement
        self._process: subprocess.Popen[bytes] | None = None
        self._connection = socket.socket(socket.AF_UNIX)  # until there is a referee to talk to
        self._busy = False
        self._stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"atlas-gym-lane-{core}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no further job, break off the running one; returns at once."""
        with self._lock:
            self._stopped = True
            self._hang_up()
            if self._busy and self._process is not None:
                self._process.terminate()

    def join(self) -> None:
        """Wait until the referee and the thread have ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            # Ahead of the first job; where it fails, the job tries again and hears of it.
            with contextlib.suppress(OSError, PeerGone):
                self._start_referee()
            while not self._stopped and (job := self._jobs.get()) is not None:
                if job.future.set_running_or_notify_cancel():
                    self._settle(job)
        finally:
            self._end_referee(_PATIENCE_S)

    def _settle(self, job: Job) -> None:
        try:
            outcome = self._evaluate(job)
        except Exception as error:  # noqa: BLE001 - e.g. a task that cannot be pickled; for the caller
            outcome = error
        if isinstance(outcome, Evaluation):
            job.future.set_result(outcome)
        else:
            job.future.set_exception(outcome)

    def _evaluate(self, job: Job) -> Evaluation | Exception:
        for losses in range(ATTEMPTS):
            try:
                outcome = self._ask_referee(job)
                return (
                    replace(outcome, retries=outcome.retries + losses)
                    if isinstance(outcome, Evaluation)
                    else outcome
                )
            except (PeerGone, OSError) as error:
                if self._stopped:
                    return EvaluatorError("the pool was closed")
                reason = self._how_it_ended(error)
        return InfrastructureError(
            f"{ATTEMPTS} referees were lost, the last one because {reason}. {BLAMELESS}"
        )

    def _how_it_ended(self, error: Exception) -> str:
        """End the referee that was lost, and say what is known of it."""
        process = self._process
        self._end_referee(patience_s=0.0 if isinstance(error, TimeoutError) else _PATIENCE_S)
        if isinstance(error, TimeoutError):
            return "it did not answer"
        return str(error) if process is None else f"it ended with exit code {process.returncode}"

    def _ask_referee(self, job: Job) -> Evaluation | Exception:
        if self._process is None:
            self._start_referee()
        with self._lock:
            self._busy = True
        try:
            self._connection.settimeout(longest_s(job.task.limits) + _BACKSTOP_S)
            send_frame(self._connection, (job.program, job.task))
            outcome: Evaluation | Exception = receive_frame(self._connection)
            return outcome
        finally:
            with self._lock:
                self._busy = False

    def _start_referee(self) -> None:
        with self._lock:
            if self._stopped:
                raise PeerGone
            self._connection.close()
            self._connection, theirs = socket.socketpair()
            with theirs:
                self._process = _popen_referee(theirs, self._core, self._confinement)

    def _end_referee(self, patience_s: float) -> None:
        with self._lock:
            self._hang_up()
            self._connection.close()
            process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _hang_up(self) -> None:
        """Reaches through copies of the socket that forks of this process may hold."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def longest_s(limits: Limits) -> float:
    """Seconds that an evaluation may take on a machine that is up, all attempts together."""
    return ATTEMPTS * STARVED * limits.wall_s


def _popen_referee(
    theirs: socket.socket, core: int, confinement: str | Sequence[str]
) -> "subprocess.Popen[bytes]":
    kind = confinement if isinstance(confinement, str) else list(confinement)
    arguments = [json.dumps(a) for a in (theirs.fileno(), os.getpid(), core, kind)]
    return subprocess.Popen(
        safe_command("atlas_gym.evaluation.server", *arguments),
        env=safe_environment() | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
