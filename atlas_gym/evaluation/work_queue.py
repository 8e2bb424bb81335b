"""What a scheduler's threads share: the work that waits, and who of them could do it."""

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass

from atlas_gym.evaluation.protocols import BLAMELESS, EvaluatorError, InfrastructureError, Task
from atlas_gym.evaluation.result import Evaluation


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


class WorkQueue:
    """The work that waits, and which supervisors are without an evaluator."""

    def __init__(self, supervisors: int) -> None:
        self._supervisors = supervisors
        self._work: deque[Work] = deque()
        self._down: set[int] = set()
        self._changed = threading.Condition()
        self.closed = False

    def put(self, work: Work) -> bool:
        """Queue new work; False if the queue is closed."""
        with self._changed:
            if not self.closed:
                self._work.append(work)
                self._changed.notify_all()  # one alone could be a supervisor that pauses
            return not self.closed

    def put_back(self, work: Work) -> None:
        """Queue work ahead of all other, or settle it if the queue is closed."""
        with self._changed:
            if not self.closed:
                self._work.appendleft(work)
                self._changed.notify_all()
                return
        work.give_up()

    def take(self) -> Work | None:
        """The next work; waits for it. None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self._work)
            return None if self.closed else self._work.popleft()

    def up(self, supervisor: int) -> None:
        """A supervisor has an evaluator."""
        with self._changed:
            self._down.discard(supervisor)

    def down(self, supervisor: int, reason: Exception) -> None:
        """A supervisor could get no evaluator; if no other has one either, everything that waits fails."""
        with self._changed:
            self._down.add(supervisor)
            failed = list(self._work) if len(self._down) == self._supervisors else []
            for _ in failed:
                self._work.popleft()
        for work in failed:
            if work.losses or work.future.set_running_or_notify_cancel():
                work.future.set_exception(_unavailable(reason))

    def pause(self, seconds: float) -> None:
        """Let time pass, or the queue be closed."""
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


def _unavailable(reason: Exception) -> EvaluatorError:
    """A node that lacks confinement or this version stays unfit; everything else is the machines' failure."""
    if isinstance(reason, EvaluatorError):
        return EvaluatorError(f"no evaluator could be started: {reason}")
    return InfrastructureError(f"no evaluator could be started: {reason}. {BLAMELESS}")
