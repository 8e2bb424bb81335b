"""The pool behind every pool: threads that each keep one remote evaluator alive and feed it from a common queue.

Whatever is elsewhere can vanish or fall silent at any moment. What holds here, for any kind of elsewhere:

* A future is settled once, by the thread that holds its work. A lost evaluator is forgotten with its unanswered
  call, so that an answer that comes too late meets nobody.
* Work whose evaluator was lost goes back to the *front* of the queue before the replacement is started: a
  free thread takes it up at once. After `ATTEMPTS` losses it ends in an `InfrastructureError`: no program gets a
  score for what became of its evaluator.
* An evaluator that died while it had nothing to do is replaced before work is handed to it, and costs no attempt.
* Silence is loss: a call has the longest time of an evaluation plus a fixed patience, however slow the other end.
* While any thread may still get an evaluator, work waits; when none could, work fails with the last reason.
"""

import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Self

from atlas_gym.evaluation.evaluator import encode
from atlas_gym.evaluation.protocols import (
    ATTEMPTS,
    BLAMELESS,
    EvaluatorError,
    InfrastructureError,
    Launch,
    Lost,
    RemoteEvaluator,
    Task,
)
from atlas_gym.evaluation.result import Evaluation, Limits, Status
from atlas_gym.evaluation.work_queue import Work, WorkQueue
from atlas_gym.evaluation.worker_end import STARVED

_IDLE_S = 1.0
"""After this long without work an evaluator is asked whether it is still there."""
_PAUSE_S = 1.0
"""Between two attempts to start an evaluator."""
_PATIENCE_S = 120.0
"""Beyond the longest time of an evaluation (imports and a slow way there count), after which an evaluator that has not
answered is lost."""
_START_WAIT_S = 300.0
"""For so long a new evaluator is waited for."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PoolStatistics:
    """What became of the programs of a pool so far."""

    evaluated: int = 0
    """Evaluations, whatever their status."""
    retried: int = 0
    """Attempts that the machine spoiled and that were made again."""
    failed: int = 0
    """Programs that the machine failed in every attempt: their futures hold an `InfrastructureError`."""


class Pool:
    """Evaluates many programs at a time, a context manager: evaluators anywhere, all of them started at once and
    replaced when lost."""

    def __init__(self, launches: Sequence[Launch], *, afterwards: Callable[[], None] | None = None) -> None:
        """Start the evaluators; they come up in the background.

        Args:
            launches: How to start each of them (>= 1).
            afterwards: Called once everything is closed.
        """
        if not launches:
            raise ValueError("a pool needs at least one worker")
        self._owner = os.getpid()
        self._counter = _Counter()
        self._queue = WorkQueue(len(launches))
        supervisors: list[Supervisor] = []
        self._close = weakref.finalize(self, _close, self._queue, supervisors, self._owner, afterwards)
        try:
            for index, launch in enumerate(launches):
                supervisors.append(Supervisor(index, self._queue, launch))
        except BaseException:  # no thread to be had, or Ctrl-C: those that run would go on
            self.close()
            raise

    @property
    def statistics(self) -> PoolStatistics:
        """What became of the programs so far."""
        return self._counter.statistics

    def submit(self, program: str, task: Task) -> "Future[Evaluation]":
        """Queue one program; the future holds its evaluation, or the exception of a failed evaluator.

        The exception is an `InfrastructureError` if the machine failed in every attempt: then the program has
        no score and must get no reward. Raises RuntimeError if the pool is closed, or was made by a process that
        this one is a fork of.
        """
        if os.getpid() != self._owner:
            raise RuntimeError("a pool cannot be used in a fork of the process that made it")
        future: Future[Evaluation] = Future()
        future.add_done_callback(self._counter.count)
        source, unfit = encode(program, task.limits)
        if self._queue.closed or not (unfit or self._queue.put(Work(source.decode(), task, future))):
            raise RuntimeError("the pool is closed")
        if unfit:  # what is no text need not be something that can travel
            future.set_result(Evaluation(Status.INVALID, None, unfit))
        return future

    def close(self) -> None:
        """Cancel what is queued, break off what is running, end every process; a second call does nothing."""
        self._close()

    def evaluate(self, program: str, task: Task) -> Evaluation:
        """Evaluate one program and wait for it."""
        return self.submit(program, task).result()

    def map(self, programs: Iterable[str], task: Task) -> list[Evaluation]:
        """Evaluate many programs on one task; results in the order of the programs."""
        texts = list(programs)
        return self.evaluate_all(texts, [task] * len(texts))

    def evaluate_all(self, programs: Sequence[str], tasks: Sequence[Task]) -> list[Evaluation]:
        """Evaluate programs[i] on tasks[i], all at once; results in the same order."""
        futures = [self.submit(program, task) for program, task in zip(programs, tasks, strict=True)]
        return [future.result() for future in futures]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close(
    queue: WorkQueue, supervisors: "list[Supervisor]", owner: int, afterwards: Callable[[], None] | None
) -> None:
    if os.getpid() != owner:
        return
    queue.close()
    for supervisor in supervisors:
        supervisor.stop()
    for supervisor in supervisors:
        supervisor.join()
    if afterwards is not None:
        afterwards()


def longest_s(limits: Limits) -> float:
    """Seconds that an evaluation may take on a machine that is up, all attempts together."""
    return ATTEMPTS * STARVED * limits.wall_s


class _Counter:
    """Counts what becomes of futures, in whatever thread they are settled."""

    def __init__(self) -> None:
        self.statistics = PoolStatistics()
        self._lock = threading.Lock()

    def count(self, future: "Future[Evaluation]") -> None:
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


class Supervisor:
    """A thread that keeps one evaluator and evaluates on it until the queue is closed."""

    def __init__(self, index: int, queue: WorkQueue, launch: Launch) -> None:
        self._index = index
        self._queue = queue
        self._launch = launch
        self._remote: RemoteEvaluator | None = None
        self._failed_starts = 0
        self._last_used = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"atlas-gym-evaluator-{index}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Break off what runs; call it after the queue is closed. Returns at once."""
        with self._lock:
            if self._remote is not None:
                self._remote.stop()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        # One that hung up is lost, whatever SIGPIPE does.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        try:
            while not self._queue.closed:
                if not self._has_remote():
                    self._queue.pause(_PAUSE_S)
                elif (work := self._queue.take()) is not None:
                    self._take_up(work)
        finally:
            self._drop()

    def _has_remote(self) -> bool:
        """Whether there is an evaluator, after starting one if need be."""
        if self._remote is not None:
            return True
        try:
            with self._lock:
                if self._queue.closed:
                    return False
                self._remote = self._launch()
            self._remote.ready(_START_WAIT_S)
        except Exception as error:  # noqa: BLE001 - why a cluster gives no evaluator is for the caller to read
            self._drop()
            self._note_failed_start(error)
            return False
        self._queue.up(self._index)
        self._failed_starts = 0
        self._last_used = time.monotonic()
        return True

    def _note_failed_start(self, error: Exception) -> None:
        if self._queue.closed:
            return
        _log.warning("evaluator %d could not be started: %s", self._index, error)
        self._failed_starts += 1
        # A system that refuses a process may give it a moment later; the others have been waited for.
        if self._failed_starts >= ATTEMPTS or not isinstance(error, OSError):
            self._queue.down(self._index, error)

    def _take_up(self, work: Work) -> None:
        remote = self._still_there()
        if remote is None:
            self._queue.put_back(work)
        elif work.losses or work.future.set_running_or_notify_cancel():
            self._settle(work, remote)

    def _still_there(self) -> RemoteEvaluator | None:
        """The evaluator, if it has not died while there was nothing to do."""
        remote = self._remote
        if remote is not None and time.monotonic() - self._last_used > _IDLE_S:
            try:
                remote.ready(_PATIENCE_S)
            except (Lost, EvaluatorError) as lost:
                self._forget(lost)
                return None
        return remote

    def _settle(self, work: Work, remote: RemoteEvaluator) -> None:
        try:
            wait_s = longest_s(work.task.limits) + _PATIENCE_S
            evaluation = remote.evaluate(work.program, work.task, wait_s)
            self._last_used = time.monotonic()
            work.future.set_result(replace(evaluation, retries=evaluation.retries + work.losses))
        except Lost as lost:
            self._hand_back(replace(work, losses=work.losses + 1), lost)
            self._forget(lost)
        except Exception as error:  # noqa: BLE001 - e.g. a task that cannot be pickled; for the caller
            work.future.set_exception(error)

    def _hand_back(self, work: Work, lost: Lost) -> None:
        if work.losses == ATTEMPTS:
            reason = f"{ATTEMPTS} evaluators were lost, the last one because {lost}. {BLAMELESS}"
            work.future.set_exception(InfrastructureError(reason))
        else:
            self._queue.put_back(work)

    def _forget(self, lost: Exception) -> None:
        if not self._queue.closed:
            _log.warning("evaluator %d was lost: %s", self._index, lost)
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            remote, self._remote = self._remote, None
        if remote is not None:
            remote.kill()
