"""Meets a program's imports before it runs, because it may not open files itself.

The names are read off the compiled program. What it names in other ways, `importlib` with a computed text for
one, is found only if it is loaded already: the `import` then fails as for a package that is not installed.
"""

import contextlib
import dis
import importlib
import os
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder

PACKAGES = ("numpy", "scipy", "torch", "torchgen", "functorch", "typing_extensions", "sympy", "mpmath")
"""What can be imported besides the standard library, where it is installed; the last five are torch's own needs."""
_IMPORT_NAME, _EXTENDED_ARG = dis.opmap["IMPORT_NAME"], dis.opmap["EXTENDED_ARG"]
_NEED_DYNAMO = {
    *("optim", "func", "vmap", "grad_and_value", "jacrev", "jacfwd", "vjp", "jvp", "checkpoint", "compile")
}
"""Names in a program upon whose use torch imports `torch._dynamo`."""


class _ReadableFinder:
    """Finds the standard library and `PACKAGES`.

    A library that can use another package if it is there finds it absent; it would otherwise meet a refusal.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """As `PathFinder.find_spec`, but None for other packages."""
        if path is None and name not in sys.stdlib_module_names and name not in PACKAGES:
            return None
        return PathFinder.find_spec(name, path, target)


def hide_other_packages() -> None:
    """From here on this process and its forks find only what they may read."""
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, _ReadableFinder]


def import_ahead(code: types.CodeType) -> None:
    """Import the modules that `code` imports anywhere, and their submodules that it names."""
    codes = [code]  # and those of the functions and classes in it
    for part in codes:
        codes += (constant for constant in part.co_consts if isinstance(constant, types.CodeType))
    names = {name for part in codes for name in part.co_names}
    everything = ("*",) in code.co_consts  # `from … import *`, which only the program's own level can have
    for module in dict.fromkeys(module for part in codes for module in _imported(part)):
        _try(module)
        exported = getattr(sys.modules.get(module), "__all__", ()) if everything else ()
        _load_parts(module, names.union(exported))
    if "torch" in sys.modules and names & _NEED_DYNAMO:
        _try("torch._dynamo")


def _load_parts(module: str, names: set[str]) -> None:
    """Load what `module`, if it is a package, holds under these names: its submodules and what it loads late."""
    package = sys.modules.get(module)
    for folder in getattr(package, "__path__", ()):
        for submodule in sorted(names & _modules_in(folder)):
            _try(f"{module}.{submodule}")
    if hasattr(package, "__getattr__"):
        for name in sorted(names - vars(package).keys()):
            with contextlib.suppress(AttributeError, ImportError):
                getattr(package, name)


def _imported(code: types.CodeType) -> Iterator[str]:
    """The names in its import statements. Instructions are pairs of bytes: operation and argument."""
    raw, high = code.co_code, 0
    for at in range(0, len(raw), 2):
        argument = high | raw[at + 1]
        high = argument << 8 if raw[at] == _EXTENDED_ARG else 0
        if raw[at] == _IMPORT_NAME:
            yield code.co_names[argument]


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
    except MemoryError:
        raise
    except (Exception, SystemExit):  # noqa: BLE001 - the program's own import will fail like this, in its own line
        sys.modules.pop(module, None)
