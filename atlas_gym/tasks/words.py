"""What an environment's documentation tells those who write programs for it."""

import inspect
import re
import sys

_SECTION = re.compile(r"(?m)^## ")
_TOLD = ("Description", "Action Space", "Rewards")
_ASIDE = re.compile(r"(?ms)^(?:>>> |`info` has ).*?(?:\n\n|\Z)")
"""Examples of the environment's use, and what its steps return beside the score."""


def words_of(task: type) -> str:
    """What a task's docstring, or that of the task that it is a variant of, tells whoever writes programs.

    Raises `RuntimeError` where Python has stripped docstrings (`-OO`): nobody can solve a task without words.
    """
    if sys.flags.optimize > 1:
        raise RuntimeError(
            "a task's words are its docstring, which python -OO takes away: run without -OO, and unset PYTHONOPTIMIZE "
            "or set it to 1"
        )
    # Those of tasks: `ProgramTask`, which is none, has no id.
    docstrings = [kind.__doc__ for kind in task.__mro__ if getattr(kind, "env_id", "")]
    return told(inspect.cleandoc(next(filter(None, docstrings), "")))


def told(docstring: str) -> str:
    """Of a docstring in Gymnasium's sections, what a program does, gets and is worth; of another, all."""
    parts = [part for part in _SECTION.split(docstring) if part.startswith(_TOLD)]
    return _ASIDE.sub("", "".join(parts)).strip() if parts else docstring
