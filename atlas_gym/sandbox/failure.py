"""Turns what a program raised into the one error message its worker sends.

Runs in the worker after the program has had its way, so it must survive hostile exceptions (a `__str__`
that raises, memory that is used up) and its result is only a claim: the trusted side sanitises the text,
and no claimed kind brings a score.
"""

import errno
import io
import linecache
import sys
import traceback

from atlas_gym.sandbox.imports import PACKAGES
from atlas_gym.sandbox.wire import ERROR, ERROR_HEAD, ERROR_KINDS

PROGRAM_NAME = "program"
PROGRAM_FILE = "<program>"

_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory")
_LONGEST_CHAIN = 20
_NO_MORE_THREADS = "can't start new thread"


class InvalidProgram(Exception):
    """The text is not a program that defines the entry function."""


def error_frame(error: BaseException, source: str, limit: int) -> bytes:
    """The message for `error`: tag, kind, length, text of at most `limit` characters."""
    try:
        return _frame(_kind(error), _describe(error, source)[:limit])
    except MemoryError:
        return _frame("memory", "MemoryError")
    except BaseException:  # noqa: BLE001 - the exception's own methods may raise anything
        return _frame("error", "an exception that cannot be printed")


def _frame(kind: str, text: str) -> bytes:
    encoded = text.encode("utf-8", "replace")[:65535]
    return bytes([ERROR]) + ERROR_HEAD.pack(ERROR_KINDS.index(kind), len(encoded)) + encoded


def _kind(error: BaseException) -> str:
    if isinstance(error, InvalidProgram):
        return "invalid"
    chain: list[BaseException] = []  # libraries wrap a refusal in errors of their own
    link: BaseException | None = error
    while link is not None and len(chain) < _LONGEST_CHAIN:
        chain.append(link)
        link = link.__cause__ or link.__context__
    if any(map(_is_refusal, chain)):
        return "violation"
    return "memory" if any(map(_is_out_of_memory, chain)) else "error"


def _is_refusal(error: BaseException) -> bool:
    """The kernel refused: seccomp and Landlock say EPERM or EACCES, the process limit BlockingIOError."""
    if isinstance(error, PermissionError | BlockingIOError):
        return True
    if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES):
        return True  # `signal.setitimer` raises an OSError of its own kind
    return isinstance(error, RuntimeError) and _NO_MORE_THREADS in str(error)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(t in str(error).lower() for t in _OUT_OF_MEMORY)


def _describe(error: BaseException, source: str) -> str:
    """What a reader of the feedback needs: the line of the program, then the exception."""
    if isinstance(error, InvalidProgram):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the program called sys.exit({error.code!r})"
    lines = io.StringIO(source, newline=None).readlines()  # as Python counts them: a form feed ends none
    linecache.cache[PROGRAM_FILE] = (len(source), None, lines, PROGRAM_FILE)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == PROGRAM_FILE]
    where = f"line {frames[-1].lineno}, in {frames[-1].name}: {frames[-1].line}\n" if frames else ""
    return f"{where}{_type_name(type(error))}: {error}".removesuffix(": ") + _advice(error)


def _advice(error: BaseException) -> str:
    """What to do about a module that is there, but that a library looked for only while the program ran."""
    name = str(error.name) if isinstance(error, ModuleNotFoundError) else ""
    root = name.partition(".")[0]
    if root not in PACKAGES and root not in sys.stdlib_module_names:
        return ""
    if traceback.extract_tb(error.__traceback__)[-1].filename == PROGRAM_FILE:
        return ""  # its own import statement was met before it ran: there is no such module
    return f". Put `import {name}` into the program: modules are loaded before it runs"


def _type_name(kind: type[BaseException]) -> str:
    """As tracebacks name it, e.g. `ValueError` or `numpy.linalg.LinAlgError`."""
    if kind.__module__ in ("builtins", "__main__", PROGRAM_NAME):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
