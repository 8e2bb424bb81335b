"""Meets a program's imports before it runs, because it may not open files itself.

The names are read off the compiled program. What it names in other ways, `importlib` with a computed text for
one, is found only if it is loaded already: the `import` then fails as for a package that is not installed.
"""

import contextlib
import dis
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from typing import Any

PACKAGES = ("numpy", "scipy", "torch", "torchgen", "functorch", "typing_extensions", "sympy", "mpmath")
"""What can be imported besides the standard library, where it is installed; the last five are torch's own needs."""
_IMPORT_NAME, _EXTENDED_ARG = dis.opmap["IMPORT_NAME"], dis.opmap["EXTENDED_ARG"]
_LOAD_CONST = dis.opmap["LOAD_CONST"]
_WITHOUT_LATE = frozenset(PACKAGES) - {"numpy", "scipy"}
"""What torch imports late is by far more than programs need: `_NEED_DYNAMO`."""
_MOST_FUNCTIONS = 2000
"""Functions of libraries that are looked at."""
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
    """Import the modules that `code` imports anywhere, their submodules that it names, and what is imported by those of
    their functions that it names only when they are called."""
    codes = [code]  # and those of the functions and classes in it
    for part in codes:
        codes += (constant for constant in part.co_consts if isinstance(constant, types.CodeType))
    names = {name for part in codes for name in part.co_names}
    everything = ("*",) in code.co_consts  # `from … import *`, which only the program's own level can have
    imported = dict.fromkeys(module for part in codes for module, _, _ in _imported(part))
    for module in imported:
        _try(module)
        exported = getattr(sys.modules.get(module), "__all__", ()) if everything else ()
        _load_parts(module, names.union(exported))
    if "np" in names and "numpy" not in imported:
        _load_parts("numpy", names)
    _import_late(imported, names)
    if "strptime" in names:
        _try("_strptime")
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


def _import_late(imported: Iterable[str], names: set[str]) -> None:
    """Import what functions of libraries import in their bodies: those of these names, and whatever they name."""
    roots = {module.partition(".")[0] for module in imported} - _WITHOUT_LATE
    modules = [vars(m) for name, m in list(sys.modules.items()) if name.partition(".")[0] in roots]
    pending: list[Any] = [module[name] for module in modules for name in names & module.keys()]
    seen: set[int] = set()
    for found in pending:
        if len(seen) > _MOST_FUNCTIONS:
            return
        found = getattr(found, "__wrapped__", found)
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, type):
            pending += [part for part in vars(found).values() if isinstance(part, types.FunctionType)]
        elif isinstance(found, types.FunctionType):
            space, code = found.__globals__, found.__code__
            pending += [space[name] for name in code.co_names if name in space]
            for name, level, parts in _imported(code):
                module = "." * level + name
                with contextlib.suppress(ImportError, TypeError, ValueError):
                    module = importlib.util.resolve_name(module, space.get("__package__"))
                _try(module)
                _load_parts(module, set(parts or ()))


def _imported(code: types.CodeType) -> Iterator[tuple[str, Any, Any]]:
    """Its import statements: the module, levels above, and what is taken from it. Instructions are pairs of bytes:
    operation and argument."""
    raw, high, before = code.co_code, 0, (0, 0)
    for at in range(0, len(raw), 2):
        argument = high | raw[at + 1]
        high = argument << 8 if raw[at] == _EXTENDED_ARG else 0
        if raw[at] == _IMPORT_NAME:
            level, parts = before
            yield code.co_names[argument], level, parts
        elif raw[at] == _LOAD_CONST:
            before = before[1], code.co_consts[argument]


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
