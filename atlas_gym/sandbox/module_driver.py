"""The worker's side of a task whose programs have several entry points: as `call_driver`, any name can be called.

A call's arguments are a name, positional arguments and keywords. Without these two (None) the question is what the
name stands for: the answer is empty if for nothing, `(True,)` if it can be called, else `(False, value)`.
"""

import sys
from collections.abc import Callable
from typing import Any

from atlas_gym.sandbox import call_driver
from atlas_gym.sandbox.failure import PROGRAM_NAME

_NOTHING = object()


def serve(load: Callable[[], Callable[..., Any]], pipe: Any) -> None:
    """Answer requests until the trusted side hangs up, which ends the process."""

    def load_all() -> Callable[..., Any]:
        load()
        names = vars(sys.modules[PROGRAM_NAME])

        def call(name: str, arguments: tuple | None, keywords: dict[str, Any] | None) -> Any:
            found = names.get(name, _NOTHING)
            if arguments is not None and keywords is not None:
                return names[name](*arguments, **keywords)
            if found is _NOTHING:
                return ()
            return (True,) if callable(found) else (False, found)

        return call

    call_driver.serve(load_all, pipe)
