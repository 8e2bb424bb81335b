"""A progress bar where `rich` is installed and a person is watching; plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Yields a function to call after each of `total` units of work."""
    try:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ImportError:  # the `learn` extra is not installed
        yield _plain(title, total)
        return
    if not sys.stderr.isatty():
        yield _plain(title, total)
        return
    from rich.console import Console

    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def _plain(title: str, total: int) -> Callable[[], None]:
    """A line for every tenth of the way."""
    began, done = time.monotonic(), 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done == total or done * 10 // total > (done - 1) * 10 // total:
            print(
                f"{title}: {done}/{total} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
            )

    return advance
