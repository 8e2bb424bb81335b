"""A few threads that wait for a server, while the results are taken up in the caller's thread."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    """Work for a thread, and what to make of its result."""

    work: Callable[[], Any]
    """Done on a thread of the crew."""
    then: Callable[[Any], Iterable[Job]]
    """Called with the result in the caller's thread; returns the jobs that follow from it."""


def run_jobs(jobs: Iterable[Job], hands: int) -> None:
    """Do all jobs, at most `hands` at a time, and those that follow from them.

    The first exception of any job or result is raised at once; jobs under way then end unheard. Threads are
    daemons: a process that is interrupted does not wait for a server.
    """
    waiting = deque(jobs)
    results: queue.SimpleQueue[tuple[Job, Any, BaseException | None]] = queue.SimpleQueue()
    under_way = 0
    while waiting or under_way:
        while waiting and under_way < hands:
            threading.Thread(target=_do, args=(waiting.popleft(), results), daemon=True).start()
            under_way += 1
        job, result, error = results.get()
        under_way -= 1
        if error is not None:
            raise error
        # What follows from a result goes first, so that requests are finished one after the other.
        waiting.extendleft(reversed(list(job.then(result))))


def _do(job: Job, results: queue.SimpleQueue[tuple[Job, Any, BaseException | None]]) -> None:
    try:
        results.put((job, job.work(), None))
    except BaseException as error:  # noqa: BLE001 - raised again where the result is waited for
        results.put((job, None, error))
