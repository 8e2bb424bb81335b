"""Meets a program's imports before it runs, because it may not open files itself.

The names are read off the compiled program. What it names in other ways, `importlib` with a computed text for
one, is found only if it is loaded already: the `import` then fails as for a package that is not installed.
"""

import dis
import importlib
import os
import sys
import types
from collections.abc import Iterator

_IMPORT_NAME, _EXTENDED_ARG = dis.opmap["IMPORT_NAME"], dis.opmap["EXTENDED_ARG"]
_LATE = {"optim": "torch._dynamo"}
"""By a name in the program: what torch imports when that is used."""


def import_ahead(code: types.CodeType) -> None:
    """Import the modules that `code` imports anywhere, and their submodules that it names."""
    codes = list(_nested(code))
    names = {name for part in codes for name in part.co_names}
    for module in dict.fromkeys(module for part in codes for module in _imported(part)):
        _try(module)
        for folder in getattr(sys.modules.get(module), "__path__", ()):
            for submodule in sorted(names & _modules_in(folder)):
                _try(f"{module}.{submodule}")
    if "torch" in sys.modules:
        for name in sorted(names & _LATE.keys()):
            _try(_LATE[name])


def _imported(code: types.CodeType) -> Iterator[str]:
    """The names in its import statements. Instructions are pairs of bytes: operation and argument."""
    raw, high = code.co_code, 0
    for at in range(0, len(raw), 2):
        argument = high | raw[at + 1]
        high = argument << 8 if raw[at] == _EXTENDED_ARG else 0
        if raw[at] == _IMPORT_NAME:
            yield code.co_names[argument]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code object and those of the functions and classes in it."""
    waiting = [code]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += (constant for constant in part.co_consts if isinstance(constant, types.CodeType))


def _modules_in(folder: str) -> set[str]:
    try:
        return {entry.partition(".")[0] for entry in os.listdir(folder)}
    except OSError:
        return set()


def _try(module: str) -> None:
    if module in sys.modules or not module:
        return
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001 - the program's own import will fail the same way, in its own line
        sys.modules.pop(module, None)
