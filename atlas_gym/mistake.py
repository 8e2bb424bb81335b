"""What the code of a task's author has raised, in a line: the error, where it was, and what is often meant."""

import re
import sysconfig
import traceback
from pathlib import Path

from atlas_gym.text import one_line

_OURS = ("<", str(Path(__file__).parent))
_INSTALLED = "-packages/"
_NO_TASKS = re.compile(f"{_INSTALLED}(numpy|scipy|torch|gymnasium|cloudpickle)/")
_CHARACTERS = 2000
_USE = "; what a program returned is used through .number(), .array() and so on, bytes through .value"


def authors_line(error: BaseException) -> traceback.FrameSummary | None:
    """The last line that led to an error and is no library's, of an installed task the first; None if there is none, as
    of a task of this package."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
    installed = [f for f in frames if _INSTALLED in f.filename]
    stdlib = sysconfig.get_path("stdlib")
    own = [f for f in frames if f not in installed and not f.filename.startswith(stdlib)]
    return own[-1] if own else next((f for f in installed if not _NO_TASKS.search(f.filename)), None)


def in_a_line(error: BaseException) -> str:
    """An error that a task's methods raised, and the line of the author's that led to it, if one did."""
    line = authors_line(error)
    where = f" in {Path(line.filename).name}, line {line.lineno}, {line.line}" if line else ""
    hint = _USE if "'Answer'" in str(error) else ""
    return one_line(f"{type(error).__name__}{where}: {error}", _CHARACTERS) + hint
