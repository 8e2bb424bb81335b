"""The wall-clock limit of an evaluation, on machines that are busy with something else.

Time in which the worker or the judging thread was ready to run and waited for a core is the machine's and does
not count; the kernel measures it (`schedstat`). Time asleep counts, so a program that sleeps ends at its limit.
However much there was to wait for, the fork server ends the worker after `STARVED` times the limit: the trusted
side then knows that the machine, not the program, was too slow. Where the kernel does not measure, all time counts.
"""

import contextlib
import threading
import time
from types import TracebackType
from typing import Protocol, Self

STARVED = 8.0
"""An evaluation may take this many times its wall-clock limit if it waits for a core that long."""
_NANO = 1e-9
_SHORTEST_S = 0.01


class Expirable(Protocol):
    """A worker, as far as its time is concerned."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def expire(self) -> None:
        """Have the fork server end it now, as overdue."""


class Patience:
    """While the block lasts, ends the worker when it has used its wall-clock time; `expired` says whether.

    Enter it in the thread that judges.
    """

    def __init__(self, worker: Expirable, limit_s: float) -> None:
        self.expired = False
        self._worker = worker
        self._limit_s = limit_s
        self._over = threading.Event()
        self._statistics = (
            f"/proc/{worker.pid}/schedstat",
            f"/proc/self/task/{threading.get_native_id()}/schedstat",
        )
        self._thread = threading.Thread(target=self._watch, name="atlas-gym-patience", daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._waited_before = self._waited_s()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        left = self._limit_s
        while left > 0:
            if self._over.wait(max(left, _SHORTEST_S)):
                return
            waited = self._waited_s() - self._waited_before
            left = self._limit_s + waited - (time.monotonic() - self._began)
        self.expired = True
        self._worker.expire()

    def _waited_s(self) -> float:
        """Seconds that both have spent waiting for a core, 0 where the kernel does not say."""
        return sum(map(_run_delay_s, self._statistics))


def _run_delay_s(path: str) -> float:
    with contextlib.suppress(OSError, IndexError, ValueError), open(path) as statistics:
        return int(statistics.read().split()[1]) * _NANO
    return 0.0
