"""What the code of a task's author has done wrong, in a line: where it failed, or that it does not end."""

import contextlib
import signal
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

_LIBRARIES = ("<", sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(__file__).parent))
_USE = "; what a program returned is used through .number(), .array() and so on, bytes through .value"


def authors_line(error: BaseException) -> traceback.FrameSummary | None:
    """The last line that led to an error and is no library's; None if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame for frame in reversed(frames) if not frame.filename.startswith(_LIBRARIES)), None)


def in_a_line(error: BaseException) -> str:
    """An error that a task's methods raised, and the line of the author's that led to it, if one did."""
    line, where = authors_line(error), ""
    if line is not None:
        where = f" in {Path(line.filename).name}, line {line.lineno}" + (
            f", {line.line}" if line.line else ""
        )
    hint = _USE if "'Answer'" in str(error) else ""
    return f"{type(error).__name__}{where}: {error}{hint}"


@contextlib.contextmanager
def computing_at_most(seconds: float) -> Iterator[None]:
    """End the block by a `TimeoutError` where it is, once this process has computed for so long in it.

    What workers compute does not count, nor does waiting. For processes that have no other use for `ITIMER_PROF`;
    outside the main thread, where no signal arrives, nothing is ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(
            f"the task's own code has computed for {seconds:g} s; if it does end, raise limits.wall_s"
        )

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
