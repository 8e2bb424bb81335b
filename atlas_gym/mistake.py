"""What the code of a task's author has raised, in a line: the error, where it was, and what is often meant."""

import sysconfig
import traceback
from pathlib import Path

_LIBRARIES = ("<", sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(__file__).parent))
_USE = "; what a program returned is used through .number(), .array() and so on, bytes through .value"


def authors_line(error: BaseException) -> traceback.FrameSummary | None:
    """The last line that led to an error and is no library's; None if there is none, as of an installed task."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame for frame in reversed(frames) if not frame.filename.startswith(_LIBRARIES)), None)


def in_a_line(error: BaseException) -> str:
    """An error that a task's methods raised, and the line of the author's that led to it, if one did."""
    line = authors_line(error)
    where = f" in {Path(line.filename).name}, line {line.lineno}, {line.line}" if line else ""
    hint = _USE if "'Answer'" in str(error) else ""
    return f"{type(error).__name__}{where}: {error}{hint}"
