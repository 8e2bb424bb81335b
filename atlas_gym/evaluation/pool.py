"""Many evaluations at a time: a pool of referees, each a trusted process with fork server and workers.

The caller's process only queues and collects: its interpreter lock is never inside a step loop. A program
that hangs holds one lane until its own limit and no other. A referee that dies is replaced and its job run
again, a few times at most. `subprocess` is used throughout, so the pool also works inside the daemonic workers of
`multiprocessing`, where child processes of its own are forbidden.
"""

import contextlib
import os
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self

from atlas_gym.evaluation.evaluator import check_confinement
from atlas_gym.evaluation.handles import InfrastructureError
from atlas_gym.evaluation.local import Job, Lane
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation


@dataclass(frozen=True)
class PoolStatistics:
    """What became of the programs of a pool so far."""

    evaluated: int = 0
    """Evaluations, whatever their status."""
    retried: int = 0
    """Attempts that the machine spoiled and that were made again."""
    failed: int = 0
    """Programs that the machine failed in every attempt: their futures hold an `InfrastructureError`."""


class _Counter:
    """Counts what becomes of futures, in whatever thread they are settled."""

    def __init__(self) -> None:
        self.statistics = PoolStatistics()
        self._lock = threading.Lock()

    def watch(self, future: "Future[Evaluation]") -> None:
        future.add_done_callback(self._count)

    def _count(self, future: "Future[Evaluation]") -> None:
        if future.cancelled():
            return
        error = future.exception()
        with self._lock:
            now = self.statistics
            if error is None:
                retried = now.retried + future.result().retries
                self.statistics = PoolStatistics(now.evaluated + 1, retried, now.failed)
            elif isinstance(error, InfrastructureError):
                self.statistics = PoolStatistics(now.evaluated, now.retried, now.failed + 1)


class Pool(ABC):
    """Evaluates many programs at a time; a context manager. Where it does so is the subclass's affair."""

    def __init__(self) -> None:
        self._counter = _Counter()

    @property
    def statistics(self) -> PoolStatistics:
        """What became of the programs so far."""
        return self._counter.statistics

    def submit(self, program: str, task: Task) -> "Future[Evaluation]":
        """Queue one program; the future holds its evaluation, or the exception of a failed evaluator.

        The exception is an `InfrastructureError` if the machine failed in every attempt: then the program has
        no score and must get no reward.
        """
        future: Future[Evaluation] = Future()
        self._counter.watch(future)
        self._queue(program, task, future)
        return future

    @abstractmethod
    def _queue(self, program: str, task: Task, future: "Future[Evaluation]") -> None:
        """Have the future settled in time; RuntimeError if the pool is closed."""

    @abstractmethod
    def close(self) -> None:
        """Cancel what is queued, break off what is running, end every process; a second call does nothing."""

    def evaluate(self, program: str, task: Task) -> Evaluation:
        """Evaluate one program and wait for it."""
        return self.submit(program, task).result()

    def map(self, programs: Iterable[str], task: Task) -> list[Evaluation]:
        """Evaluate many programs on one task; results in the order of the programs."""
        futures = [self.submit(program, task) for program in programs]
        return [future.result() for future in futures]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EvaluatorPool(Pool):
    """Evaluates programs on several cores of this machine.

    Example:
        with EvaluatorPool(workers=2) as pool:
            evaluations = pool.map(programs, task)
    """

    def __init__(self, workers: int = 2, *, confinement: str | Sequence[str] = "default") -> None:
        """Start the referees; they import in the background.

        Args:
            workers: Evaluations at a time (>= 1). Each lane keeps to one core, as far as there are cores.
            confinement: As for `make_evaluator`; whether the machine gives it shows at the first evaluation.
        """
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, got {workers}")
        super().__init__()
        check_confinement(confinement)
        self._owner = os.getpid()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        cores = usable_cores() or [-1]
        lanes = [Lane(self._jobs, cores[i % len(cores)], confinement) for i in range(workers)]
        self._close = weakref.finalize(self, _close, self._jobs, lanes, self._owner)

    def _queue(self, program: str, task: Task, future: "Future[Evaluation]") -> None:
        if not self._close.alive:
            raise RuntimeError("the pool is closed")
        if os.getpid() != self._owner:
            raise RuntimeError("a pool cannot be used in a fork of the process that made it")
        self._jobs.put(Job(program, task, future))

    def close(self) -> None:
        """Cancel what is queued, break off what is running, end every process; a second call does nothing."""
        self._close()


def usable_cores() -> list[int]:
    """The cores that this process may use; empty where the system keeps no process to cores (macOS, Windows)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def core_count() -> int:
    """How many evaluations this process can usefully run at a time."""
    return len(usable_cores()) or os.cpu_count() or 1


def _close(jobs: "queue.SimpleQueue[Job | None]", lanes: list[Lane], owner: int) -> None:
    if os.getpid() != owner:
        return
    _cancel(jobs)
    for lane in lanes:
        lane.stop()
        jobs.put(None)
    for lane in lanes:
        lane.join()
    _cancel(jobs)  # what another thread submitted in the meantime


def _cancel(jobs: "queue.SimpleQueue[Job | None]") -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            job = jobs.get_nowait()
            if job is not None:
                job.future.cancel()
