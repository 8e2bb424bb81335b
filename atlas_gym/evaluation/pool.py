"""Many evaluations at a time: a pool of referees, each a trusted process with fork server and workers.

The caller's process only queues and collects: its interpreter lock is never inside a step loop. A program
that hangs holds one lane until its own limit and no other. A referee that dies is replaced and its job run
once more. `subprocess` is used throughout, so the pool also works inside the daemonic workers of
`multiprocessing`, where child processes of its own are forbidden.
"""

import contextlib
import os
import queue
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Self

from atlas_gym.evaluation.evaluator import check_confinement
from atlas_gym.evaluation.local import Job, Lane
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation


class Pool(ABC):
    """Evaluates many programs at a time; a context manager. Where it does so is the subclass's affair."""

    @abstractmethod
    def submit(self, program: str, task: Task) -> "Future[Evaluation]":
        """Queue one program; the future holds its evaluation, or the exception of a failed evaluator."""

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
        check_confinement(confinement)
        self._owner = os.getpid()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        cores = _cores()
        lanes = [Lane(self._jobs, cores[i % len(cores)], confinement) for i in range(workers)]
        self._close = weakref.finalize(self, _close, self._jobs, lanes, self._owner)

    def submit(self, program: str, task: Task) -> "Future[Evaluation]":
        """Queue one program; the future holds its evaluation, or the exception of a failed evaluator."""
        if not self._close.alive:
            raise RuntimeError("the pool is closed")
        if os.getpid() != self._owner:
            raise RuntimeError("a pool cannot be used in a fork of the process that made it")
        future: Future[Evaluation] = Future()
        self._jobs.put(Job(program, task, future))
        return future

    def close(self) -> None:
        """Cancel what is queued, break off what is running, end every process; a second call does nothing."""
        self._close()


def _cores() -> list[int]:
    """The usable cores, or [-1] where processes cannot be kept to one."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [-1]


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
