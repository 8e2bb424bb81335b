"""Slots: threads that each keep one evaluator alive somewhere else and feed it from a common backlog.

Whatever is elsewhere can vanish or fall silent at any moment. What holds here, for any kind of elsewhere:

* A future is settled once, by the thread that holds its work. A lost evaluator is forgotten with its unanswered
  call, so that an answer that comes too late meets nobody.
* Work whose evaluator was lost goes back to the *front* of the backlog before the replacement is started: a
  free slot takes it up at once. After `ATTEMPTS` losses it ends in an `InfrastructureError`, as in the local pool:
  no program gets a score for what became of its evaluator.
* An evaluator that died while it had nothing to do is replaced before work is handed to it, and costs no attempt.
* Silence is loss: a call has the longest time of an evaluation plus a fixed patience, however slow the other end.
* While any slot may still get an evaluator, work waits; when none could, work fails with the last reason.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from atlas_gym.evaluation.evaluator import ATTEMPTS
from atlas_gym.evaluation.handles import EvaluatorError, InfrastructureError
from atlas_gym.evaluation.local import longest_s
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.remedies import BLAMELESS
from atlas_gym.evaluation.result import Evaluation

_IDLE_S = 1.0
"""After this long without work an evaluator is asked whether it is still there."""
_PAUSE_S = 1.0
"""Between two attempts to start an evaluator."""

_log = logging.getLogger(__name__)


class Lost(Exception):
    """The evaluator, or the way to it, is gone."""


class Silent(Lost):
    """It did not answer in time."""


class Remote(Protocol):
    """One evaluator elsewhere; `Launch` returns at once, before it is up."""

    def ready(self, wait_s: float) -> None:
        """Wait until it is up. Raises `Lost`, or `EvaluatorError` if it can never be of use."""

    def evaluate(self, program: str, task: Task, wait_s: float) -> Evaluation:
        """Raises `Lost`, `Silent`, or whatever the evaluator itself raised."""

    def kill(self) -> None:
        """End it with everything it started; from any thread, and more than once."""


Launch = Callable[[], Remote]


@dataclass(frozen=True)
class Work:
    """One program to evaluate."""

    program: str
    """The text."""
    task: Task
    """What to evaluate it on."""
    future: "Future[Evaluation]"
    """Where the outcome goes."""
    losses: int = 0
    """Evaluators lost with it so far."""

    def give_up(self) -> None:
        """Settle it for a pool that is closed."""
        if self.losses:
            self.future.set_exception(EvaluatorError("the pool was closed"))
        else:
            self.future.cancel()


class Backlog:
    """The work that waits, and which slots are without an evaluator."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._work: deque[Work] = deque()
        self._down: set[int] = set()
        self._changed = threading.Condition()
        self.closed = False

    def put(self, work: Work) -> bool:
        """Queue new work; False if the backlog is closed."""
        return self._insert(work, self._work.append)

    def put_back(self, work: Work) -> bool:
        """Queue work ahead of all other; False if the backlog is closed."""
        return self._insert(work, self._work.appendleft)

    def take(self) -> Work | None:
        """The next work; waits for it. None once the backlog is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self._work)
            return None if self.closed else self._work.popleft()

    def up(self, slot: int) -> None:
        """A slot has an evaluator."""
        with self._changed:
            self._down.discard(slot)

    def down(self, slot: int, reason: Exception) -> None:
        """A slot could get no evaluator; if no other has one either, everything that waits fails."""
        with self._changed:
            self._down.add(slot)
            failed = list(self._work) if len(self._down) == self._slots else []
            for _ in failed:
                self._work.popleft()
        for work in failed:
            if work.losses or work.future.set_running_or_notify_cancel():
                work.future.set_exception(_unavailable(reason))

    def pause(self, seconds: float) -> None:
        """Let time pass, or the backlog be closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed, seconds)

    def close(self) -> None:
        """Cancel what waits; nothing is taken or put from here on."""
        with self._changed:
            self.closed = True
            waiting, self._work = self._work, deque()
            self._changed.notify_all()
        for work in waiting:
            work.give_up()

    def _insert(self, work: Work, insert: Callable[[Work], None]) -> bool:
        with self._changed:
            if not self.closed:
                insert(work)
                self._changed.notify()
            return not self.closed


def _unavailable(reason: Exception) -> EvaluatorError:
    """A node that lacks confinement or this version stays unfit; everything else is the machines' failure."""
    kind = EvaluatorError if isinstance(reason, EvaluatorError) else InfrastructureError
    return kind(f"no evaluator could be started: {reason}")


class Slot:
    """A thread that keeps one evaluator and evaluates on it until the backlog is closed."""

    def __init__(
        self, index: int, backlog: Backlog, launch: Launch, patience_s: float, start_wait_s: float
    ) -> None:
        self._index = index
        self._backlog = backlog
        self._launch = launch
        self._patience_s = patience_s
        self._start_wait_s = start_wait_s
        self._remote: Remote | None = None
        self._last_used = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"atlas-gym-slot-{index}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Break off what runs; call it after the backlog is closed. Returns at once."""
        with self._lock:
            if self._remote is not None:
                self._remote.kill()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._backlog.closed:
                if not self._has_remote():
                    self._backlog.pause(_PAUSE_S)
                elif (work := self._backlog.take()) is not None:
                    self._take_up(work)
        finally:
            self._drop()

    def _has_remote(self) -> bool:
        """Whether there is an evaluator, after starting one if need be."""
        if self._remote is not None:
            return True
        try:
            with self._lock:
                if self._backlog.closed:
                    return False
                self._remote = self._launch()
            self._remote.ready(self._start_wait_s)
        except Exception as error:  # noqa: BLE001 - why a cluster gives no evaluator is for the caller to read
            self._drop()
            if not self._backlog.closed:
                _log.warning("slot %d has no evaluator: %s", self._index, error)
                self._backlog.down(self._index, error)
            return False
        self._backlog.up(self._index)
        self._last_used = time.monotonic()
        return True

    def _take_up(self, work: Work) -> None:
        remote = self._still_there()
        if remote is None:
            if not self._backlog.put_back(work):
                work.give_up()
        elif work.losses or work.future.set_running_or_notify_cancel():
            self._settle(work, remote)

    def _still_there(self) -> Remote | None:
        """The evaluator, if it has not died while there was nothing to do."""
        remote = self._remote
        if remote is not None and time.monotonic() - self._last_used > _IDLE_S:
            try:
                remote.ready(self._patience_s)
            except (Lost, EvaluatorError) as lost:
                self._forget(lost)
                return None
        return remote

    def _settle(self, work: Work, remote: Remote) -> None:
        try:
            evaluation = remote.evaluate(
                work.program, work.task, longest_s(work.task.limits) + self._patience_s
            )
            self._last_used = time.monotonic()
            work.future.set_result(replace(evaluation, retries=evaluation.retries + work.losses))
        except Lost as lost:
            self._forget(lost)
            self._hand_back(replace(work, losses=work.losses + 1), lost)
        except Exception as error:  # noqa: BLE001 - e.g. a task that cannot be pickled; for the caller
            work.future.set_exception(error)

    def _hand_back(self, work: Work, lost: Lost) -> None:
        if work.losses == ATTEMPTS:
            reason = f"{ATTEMPTS} evaluators were lost, the last one because {lost}. {BLAMELESS}"
            work.future.set_exception(InfrastructureError(reason))
        elif not self._backlog.put_back(work):
            work.give_up()

    def _forget(self, lost: Exception) -> None:
        if not self._backlog.closed:
            _log.warning("slot %d lost its evaluator: %s", self._index, lost)
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            remote, self._remote = self._remote, None
        if remote is not None:
            remote.kill()
