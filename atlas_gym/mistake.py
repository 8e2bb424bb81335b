"""What the code of a task's author has raised, in a line: the error, where it was, and what is often meant."""

import sysconfig
import traceback
from itertools import pairwise
from pathlib import Path

_OWN = str(Path(__file__).parent)
_LIBRARIES = ("<", sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), _OWN)
_USE = "; what a program returned is used through .number(), .array() and so on, bytes through .value"


def authors_line(error: BaseException) -> traceback.FrameSummary | None:
    """The last line that led to an error and is no library's; of a task that is installed, the one that was called from
    here. None if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    installed = None
    for caller, frame in pairwise(frames):
        if not frame.filename.startswith((_OWN, "<")) and caller.filename.startswith(_OWN):
            installed = frame
    return next((frame for frame in reversed(frames) if not frame.filename.startswith(_LIBRARIES)), installed)


def in_a_line(error: BaseException) -> str:
    """An error that a task's methods raised, and the line of the author's that led to it, if one did."""
    line, where = authors_line(error), ""
    if line is not None:
        where = f" in {Path(line.filename).name}, line {line.lineno}" + (
            f", {line.line}" if line.line else ""
        )
    hint = _USE if "'Answer'" in str(error) else ""
    return f"{type(error).__name__}{where}: {error}{hint}"
