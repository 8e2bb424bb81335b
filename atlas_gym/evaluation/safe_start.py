"""Starts a module in a new interpreter whose standard library nothing can shadow.

Python puts the working directory, the script's folder or PYTHONPATH before its own library: a stray `hmac.py`
would be imported instead of the real one. Our processes are started by

    python -P safe_start.py PATHS MODULE ARGUMENTS...

which sees what the starting process sees (PATHS, its `sys.path` in JSON), the standard library always first.
"""

import contextlib
import json
import os
import runpy
import sys
import sysconfig
from collections.abc import Iterator, Sequence

_VARIABLE = "PYTHONSAFEPATH"


def safe_command(module: str, *arguments: str) -> list[str]:
    """The command that runs `module` as `python -m` would; start it with `safe_environment()`."""
    return [sys.executable, "-P", *safe_script(module, *arguments)]


def safe_script(module: str, *arguments: str) -> list[str]:
    """The same without the interpreter, for launchers that bring their own."""
    return [__file__, json.dumps(list(_absolute(sys.path))), module, *arguments]


def _absolute(paths: Sequence[str]) -> Iterator[str]:
    """Without those below a working directory that has been deleted: nothing can be imported from there."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            yield os.path.abspath(path)


def safe_environment() -> dict[str, str]:
    """This process's environment, such that Python puts nothing before its own library."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {_VARIABLE: "1"}


@contextlib.contextmanager
def safe_children() -> Iterator[None]:
    """For libraries that start interpreters of their own, such as `multiprocessing`, in the block."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def standard_library_first(paths: Sequence[str]) -> list[str]:
    """`paths` without repetitions, the standard library's own folders before all others."""
    return list(dict.fromkeys(sorted(paths, key=lambda path: not _is_standard(path))))


def _is_standard(path: str) -> bool:
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    folders |= {os.path.join(folder, "lib-dynload") for folder in folders}
    return (
        path in folders or os.path.basename(path) == f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    )


def _main() -> None:
    paths, module, *arguments = sys.argv[1:]
    sys.path[:] = standard_library_first([*json.loads(paths), *sys.path])
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
