"""Optional packages: imported where used, missed with a line that says what to install."""

import contextlib
import os
import sys
from importlib import import_module
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Raises:
        ModuleNotFoundError: It is not installed; the message names the extra that brings it.
    """
    missing = f'{module} is not installed: pip install "atlas-gym[{extra}]"'
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing, name=error.name) from error
    # Any folder of that name, such as one of Ray's logs, imports as a package without a file.
    if getattr(found, "__file__", None) is None:
        raise ModuleNotFoundError(missing, name=module)
    return found


def any_backend() -> None:
    """Import matplotlib, if it is there, whatever backend its variable names: its import ends at one that is not known
    here, a notebook's say, and our figures need none."""
    if "MPLBACKEND" in os.environ and "matplotlib" not in sys.modules:
        own = os.environ["MPLBACKEND"]
        with contextlib.suppress(ImportError, ValueError):
            os.environ["MPLBACKEND"] = "Agg"
            import matplotlib

            matplotlib.rcParams["backend"] = own
        os.environ["MPLBACKEND"] = own
