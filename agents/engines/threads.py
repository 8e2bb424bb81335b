"""Work that waits for servers, on daemon threads: an interrupted process does not wait for a server, as it would for
the threads of an executor."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


def started(work: Callable[[], Result], name: str = "engine") -> Future[Result]:
    """Do it on a thread of that name; what it returns or raises is in the future."""
    outcome: Future[Result] = Future()

    def do() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is waited for
            outcome.set_exception(error)

    threading.Thread(target=do, name=name, daemon=True).start()
    return outcome


def in_threads(work: Sequence[Callable[[], Result]], hands: int) -> Iterator[tuple[int, Result]]:
    """Do all of it, at most `hands` at a time; yields place and result as they come, in the caller's thread.

    The first exception is raised at once; what is under way then ends unheard.
    """
    results: queue.SimpleQueue[tuple[int, Future[Result]]] = queue.SimpleQueue()

    def note(place: int, done: Future[Result]) -> None:
        results.put((place, done))

    begun = 0
    for ended in range(len(work)):
        while begun < min(ended + hands, len(work)):
            started(work[begun]).add_done_callback(partial(note, begun))
            begun += 1
        place, done = results.get()
        yield place, done.result()
