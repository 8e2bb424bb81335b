"""Builds the compiled kernel where a C++ compiler exists, once per machine.

The library is tuned to the machine it is built on (`-march=native`), so it is named by everything that
determines it: sources, options, width and the CPU's features. It is looked for in `cache_folder()`, and built into
it at first use (half a second); a cache that several machines share holds one for each kind of processor.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from atlas_gym.cache import cache_folder

FOLDER = Path(__file__).resolve().parent
SOURCES = ("kernel.cpp", "vectors.hpp")
_OPTIONS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")


class BuildError(RuntimeError):
    """The kernel cannot be built here; the message says why."""


def find_or_build(width: int) -> Path:
    """The kernel's shared library for networks of a width, built if need be.

    Concurrent builds are harmless: each completes its own file, then renames it.

    Raises:
        BuildError: If there is no compiler, it fails, or the cache cannot be written.
    """
    folder = cache_folder()
    library = folder / library_name(width)
    if library.exists():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = tempfile.TemporaryDirectory(dir=folder)
    except OSError as error:
        raise BuildError(f"cannot write to {folder}: {error.strerror}") from error
    with draft as place:
        built = Path(place) / library.name
        _compile(width, built)
        built.chmod(0o755)
        built.replace(library)
    return library


def library_name(width: int) -> str:
    """Name of the library: a digest of all that determines it."""
    digest = hashlib.sha256(repr((_OPTIONS, width, platform.machine(), _cpu_features())).encode())
    for source in SOURCES:
        digest.update((FOLDER / source).read_bytes())
    return f"kernel-{digest.hexdigest()[:16]}.so"


def _compile(width: int, output: Path) -> None:
    command = [*_compiler(), *_OPTIONS, f"-DWIDTH={width}", "-o", str(output), str(FOLDER / SOURCES[0])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"the compiler could not be run: {error}") from error
    if done.returncode != 0:
        raise BuildError(f"the compiler failed: {done.stderr.strip()[:500]}")


def _compiler() -> list[str]:
    """$CXX, else the first of the usual names."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildError("no C++ compiler (c++, g++, clang++ or $CXX) was found")


def _cpu_features() -> str:
    """The features that -march=native looks at, as the kernel lists them."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux: the processor's name has to do
    return platform.processor()
