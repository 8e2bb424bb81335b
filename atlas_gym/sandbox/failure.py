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
    """What a failure counts as. Libraries wrap a refusal of the kernel's in errors of their own."""
    if isinstance(error, InvalidProgram):
        return "invalid"
    kind, left = "error", _LONGEST_CHAIN
    link: BaseException | None = error
    while link is not None and left:
        # seccomp and Landlock say EPERM or EACCES (`signal.setitimer` by an OSError of its own kind), the limit on
        # processes BlockingIOError.
        denied = isinstance(link, OSError) and link.errno in (errno.EPERM, errno.EACCES)
        if denied or isinstance(link, PermissionError | BlockingIOError):
            return "violation"
        text = str(link).lower() if isinstance(link, RuntimeError | OSError) else ""
        if isinstance(link, RuntimeError) and _NO_MORE_THREADS in text:
            return "violation"
        if isinstance(link, MemoryError) or any(said in text for said in _OUT_OF_MEMORY):
            kind = "memory"
        link, left = link.__cause__ or link.__context__, left - 1
    return kind


_ALONE = "A program has one process and one thread: ask for no workers"


def _describe(error: BaseException, source: str) -> str:
    """What a reader of the feedback needs: the line of the program, then the exception and what to do about it."""
    if isinstance(error, InvalidProgram):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the program called sys.exit({error.code!r})"
    lines = io.StringIO(source, newline=None).readlines()  # as Python counts them: a form feed ends none
    linecache.cache[PROGRAM_FILE] = (len(source), None, lines, PROGRAM_FILE)
    trace = traceback.extract_tb(error.__traceback__)
    frames = [f for f in trace if f.filename == PROGRAM_FILE]
    where = f"line {frames[-1].lineno}, in {frames[-1].name}: {frames[-1].line}\n" if frames else ""
    kind = type(error)
    own = kind.__module__ in ("builtins", "__main__", PROGRAM_NAME)
    name = kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
    said = f"{where}{name}: {error}".removesuffix(": ")
    # A module that is there, but that a library looked for only while the program ran. What the program's own import
    # statement names was met before: there is no such module.
    missing = str(error.name) if isinstance(error, ModuleNotFoundError) else ""
    known = missing.partition(".")[0] in {*PACKAGES, *sys.stdlib_module_names}
    if known and trace[-1].filename != PROGRAM_FILE:
        way = f"Put `import {missing}` into the program: modules are loaded before it runs"
        said += f". {_ALONE if missing.startswith('multiprocessing') else way}"
    return said
