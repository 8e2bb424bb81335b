"""The instances of a task: drawn once per process from what hides them, bounded, and copied for each program."""

import copy
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlas_gym.tasks.program_task import ProgramTask

_MOST = 1_000_000
"""Instances of a task, at most."""


@lru_cache(maxsize=32)
def drawn(task: "ProgramTask") -> Sequence[Any]:
    """The instances of a task's seed, drawn once per process."""
    of_task = f"{type(task).__name__}.instances"
    try:
        given = task.instances(task._stream("instances"))
        # Nobody means a text's letters, a mapping's keys, or a set, whose order is another in every process.
        if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping | Set):
            raise TypeError(f"{of_task} returned {given!r:.80}; return a list, or yield its items")
        found = list(islice(given, _MOST + 1))
    except MemoryError as error:
        raise ValueError(f"{of_task} needs more memory than there is; give smaller constants") from error
    if not 0 < len(found) <= _MOST:
        raise ValueError(f"{of_task} gives {f'more than {_MOST:,}' if found else 'none'}")
    return found


def copied(task: "ProgramTask") -> Sequence[Any]:
    """The same for one program, whose evaluation must not change the next one's."""
    instances = drawn(task)
    try:
        return copy.deepcopy(instances)
    except (TypeError, RuntimeError, copy.Error) as error:
        raise TypeError(
            f"{type(task).__name__}.instances gives what cannot be copied for each program ({error}); give data, and "
            "make the rest of it in score"
        ) from error
