"""Many evaluations at a time: a pool whose threads each keep one evaluator and feed it from a common queue.

An evaluator is a process of this machine (`processes`) or an actor of a Ray cluster (`ray`), which can vanish or fall
silent at any moment. The caller's process only queues and collects.

* A program that hangs holds one evaluator, until its own limit, and no other.
* A program whose evaluator was lost goes back to the front of the queue before the replacement is started. After
  `ATTEMPTS` losses it ends in an `InfrastructureError`: no program is scored for what became of its evaluator.
* An evaluator that has not answered after the longest time of an evaluation and a fixed patience is lost.
* While any thread may still get an evaluator, programs wait; when none could, they fail with the last reason.
"""

import logging
import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol, Self

from atlas_gym.evaluation.channel import Task
from atlas_gym.evaluation.evaluator import encode
from atlas_gym.evaluation.result import (
    ATTEMPTS,
    BLAMELESS,
    STARVED,
    Evaluation,
    EvaluatorError,
    InfrastructureError,
    Status,
)

_PAUSE_S = 1.0
"""Between two attempts to start an evaluator."""
_PATIENCE_S = 120.0
"""Beyond the longest time of an evaluation; imports and a slow way to the evaluator count."""
_START_WAIT_S = 300.0
"""A new evaluator may take this long to come up."""

_log = logging.getLogger(__name__)


class Lost(Exception):
    """An evaluator, or the way to it, is gone, or it did not answer in time."""


class RemoteEvaluator(Protocol):
    """One evaluator elsewhere: a process (`processes`) or an actor (`ray`)."""

    def ready(self, wait_s: float) -> None:
        """Wait until it is up. Raises `Lost`, or `EvaluatorError` if it can never be of use."""

    def evaluate(self, program: str, task: Task, wait_s: float) -> Evaluation:
        """Evaluate within `wait_s`. Raises `Lost`, or whatever the evaluator itself raised."""

    def stop(self) -> None:
        """Have it end, a running evaluation with it; from any thread, and more than once. Returns at once."""

    def kill(self) -> None:
        """`stop`, and wait until it has ended with everything it started, where that can be seen from here."""


class Pool:
    """Evaluates many programs at a time; a context manager."""

    def __init__(
        self, launches: Sequence[Callable[[], RemoteEvaluator]], afterwards: Callable[[], None] | None = None
    ) -> None:
        """Start an evaluator by each of `launches`, in the background; `afterwards` is called once all are closed."""
        if not launches:
            raise ValueError("a pool needs at least one worker")
        self._owner = os.getpid()
        self._crew = _Crew(len(launches))  # its threads hold no pool, so one that is forgotten closes itself
        self._close = weakref.finalize(self, self._crew.close, self._owner, afterwards)
        try:
            for number, launch in enumerate(launches):
                self._crew.start(number, launch)
        except BaseException:  # no thread to be had, or Ctrl-C: those that run would go on
            self.close()
            raise

    def submit(self, program: str, task: Task) -> "Future[Evaluation]":
        """Queue one program; the future holds its evaluation, or the exception of a failed evaluator.

        After an `InfrastructureError`, a failure of the machine in every attempt, the program must get no reward.
        Raises RuntimeError if the pool is closed, or was made by a process that this one is a fork of.
        """
        if os.getpid() != self._owner:
            raise RuntimeError("a pool cannot be used in a fork of the process that made it")
        _, unfit = encode(program, task.limits)
        future: Future[Evaluation] = Future()
        self._crew.put(_Work("" if unfit else str(program), task, future), at_once=bool(unfit))
        if unfit:  # what is no text need not be something that can travel
            future.set_result(Evaluation(Status.INVALID, None, unfit))
        return future

    def close(self) -> None:
        """Cancel what is queued, break off what is running, end every process; a second call does nothing."""
        self._close()

    def evaluate(self, program: str, task: Task) -> Evaluation:
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


@dataclass(frozen=True)
class _Work:
    """One program to evaluate, and where the outcome goes."""

    program: str
    task: Task
    future: "Future[Evaluation]"
    losses: int = 0  # evaluators lost with it so far


class _Crew:
    """A pool's threads, their evaluators and the queue."""

    def __init__(self, size: int) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._waiting: deque[_Work] = deque()
        self._remotes: dict[int, RemoteEvaluator] = {}
        self._down: set[int] = set()
        self._threads: list[threading.Thread] = []
        self._size = size

    def start(self, number: int, launch: Callable[[], RemoteEvaluator]) -> None:
        name = f"atlas-gym-evaluator-{number}"
        thread = threading.Thread(target=self._serve, args=(number, launch), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def put(self, work: _Work, at_once: bool) -> None:
        """Queue work, unless it is settled `at_once`. Raises RuntimeError if the pool is closed."""
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if not at_once:
                self._waiting.append(work)
                self._changed.notify_all()  # one alone could be a thread that pauses

    def close(self, owner: int, afterwards: Callable[[], None] | None) -> None:
        """End everything; in a fork of the owner nothing."""
        if os.getpid() != owner:
            return
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
            remotes = list(self._remotes.values())
            self._changed.notify_all()
        for work in waiting:
            self._hand_back(work)
        for remote in remotes:
            remote.stop()
        for thread in self._threads:
            thread.join()
        if afterwards is not None:
            afterwards()

    def _serve(self, number: int, launch: Callable[[], RemoteEvaluator]) -> None:
        """Bring an evaluator up and feed it; when it is lost, the next one. A thread runs this."""
        # One that hung up is lost, whatever the process does about SIGPIPE.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        failures = 0
        while not self._closed:
            try:
                self._feed(number, launch)
                failures = 0
            except Exception as error:  # noqa: BLE001 - why there is no evaluator is for the caller to read
                failures += 1
                # A system that refuses a process may give it a moment later; the others have been waited for.
                hopeless = failures >= ATTEMPTS or not isinstance(error, OSError)
                self._note_failed_start(number, error, hopeless)
            finally:
                with self._changed:
                    remote = self._remotes.pop(number, None)
                if remote is not None:
                    remote.kill()

    def _feed(self, number: int, launch: Callable[[], RemoteEvaluator]) -> None:
        """Start an evaluator and let it evaluate until it is lost or the pool closed; raises if it does not start."""
        remote = launch()
        with self._changed:
            self._remotes[number] = remote
            if self._closed:  # `close` may have been too early to stop it
                return
        remote.ready(_START_WAIT_S)
        with self._changed:
            self._down.discard(number)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                work = self._waiting.popleft()
            if not (work.losses or work.future.set_running_or_notify_cancel()):
                continue
            try:
                wait_s = ATTEMPTS * STARVED * work.task.limits.wall_s + _PATIENCE_S
                evaluation = remote.evaluate(work.program, work.task, wait_s)
            except Lost as lost:
                self._hand_back(replace(work, losses=work.losses + 1), lost)
                if not self._closed:
                    _log.warning("evaluator %d was lost: %s", number, lost)
                return
            except Exception as error:  # noqa: BLE001 - e.g. a task that cannot be pickled; for the caller
                work.future.set_exception(error)
            else:
                work.future.set_result(replace(evaluation, retries=evaluation.retries + work.losses))

    def _hand_back(self, work: _Work, lost: Lost | None = None) -> None:
        """Queue work ahead of all other, or settle it: the pool is closed, or it has lost too many evaluators."""
        with self._changed:
            closed = self._closed
            if not closed and work.losses < ATTEMPTS:
                self._waiting.appendleft(work)
                self._changed.notify_all()
                return
        if closed and work.losses:
            work.future.set_exception(EvaluatorError("the pool was closed"))
        elif closed:
            work.future.cancel()
        else:
            reason = f"{ATTEMPTS} evaluators were lost, the last one because {lost}. {BLAMELESS}"
            work.future.set_exception(InfrastructureError(reason))

    def _note_failed_start(self, number: int, error: Exception, hopeless: bool) -> None:
        """Let time pass before the next attempt. If no thread could get an evaluator, everything that waits fails."""
        failed: list[_Work] = []
        with self._changed:
            if hopeless:
                self._down.add(number)
            if len(self._down) == self._size and not self._closed:
                failed, self._waiting = list(self._waiting), deque()
        if not self._closed:
            _log.warning("evaluator %d could not be started: %s", number, error)
        text = f"no evaluator could be started: {error}"
        for work in failed:
            if work.losses or work.future.set_running_or_notify_cancel():
                # A node that lacks confinement or this version stays unfit; all else is the machines' failure.
                unfit = isinstance(error, EvaluatorError)
                work.future.set_exception(
                    EvaluatorError(text) if unfit else InfrastructureError(f"{text}. {BLAMELESS}")
                )
        with self._changed:
            self._changed.wait_for(lambda: self._closed, _PAUSE_S)
