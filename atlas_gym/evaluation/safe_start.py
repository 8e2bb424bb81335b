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
from collections.abc import Sequence


def safe_command(module: str, *arguments: str) -> list[str]:
    """The command that runs `module` as `python -m` would; start it with `safe_environment()`."""
    return [sys.executable, "-P", *safe_script(module, *arguments)]


def safe_script(module: str, *arguments: str) -> list[str]:
    """`safe_command` without the interpreter, for launchers that bring their own."""
    paths = []
    for path in sys.path:
        with contextlib.suppress(FileNotFoundError):  # below a working directory that has been deleted
            paths.append(os.path.abspath(path))
    return [__file__, json.dumps(paths), module, *arguments]


def safe_environment() -> dict[str, str]:
    """This process's environment, in which Python puts nothing before its own library."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "PYTHONSAFEPATH": "1"
    }


def standard_library_first(paths: Sequence[str]) -> list[str]:
    """`paths` without repetitions, the standard library's own folders before all others."""
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    folders |= {os.path.join(folder, "lib-dynload") for folder in folders}
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    return list(
        dict.fromkeys(sorted(paths, key=lambda p: p not in folders and os.path.basename(p) != archive))
    )


def _main() -> None:
    paths, module, *arguments = sys.argv[1:]
    sys.path[:] = standard_library_first([*json.loads(paths), *sys.path])
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
