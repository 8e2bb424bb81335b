"""Builds the compiled kernel where a C++ compiler exists, once per machine, into `cache_folder()`.

The library is tuned to the machine (`-march=native`), so it is named by all that determines it: sources, options, width
and the CPU's features. A cache that several machines share holds one for each kind of processor.
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
_FEATURES = ("flags", "Features")
"""Begin the line of the CPU's features that -march=native looks at."""


class BuildError(RuntimeError):
    """The kernel cannot be built here; the message says why."""


def find_or_build(width: int) -> Path:
    """The kernel's shared library for networks of a width, built if need be (half a second).

    Concurrent builds are harmless: each completes its own file, then renames it. Raises BuildError if there is no
    compiler ($CXX or one of the usual names), it fails, or the cache cannot be written.
    """
    folder = cache_folder()
    library = folder / library_name(width)
    if library.exists():
        return library
    usual = [name for name in ("c++", "g++", "clang++") if shutil.which(name)]
    compiler = shlex.split(os.environ.get("CXX") or "") or usual[:1]
    if not compiler:
        raise BuildError("no C++ compiler (c++, g++, clang++ or $CXX) was found")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = tempfile.TemporaryDirectory(dir=folder)
    except OSError as error:
        raise BuildError(f"cannot write to {folder}: {error.strerror}") from error
    with draft as place:
        built = Path(place) / library.name
        command = [*compiler, *_OPTIONS, f"-DWIDTH={width}", "-o", str(built), str(FOLDER / SOURCES[0])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"the compiler could not be run: {error}") from error
        if done.returncode != 0:
            raise BuildError(f"the compiler failed: {done.stderr.strip()[:500]}")
        built.chmod(0o755)
        built.replace(library)
    return library


def library_name(width: int) -> str:
    """Name of the library: a digest of all that determines it."""
    features = platform.processor()  # where there is no /proc, the processor's name has to do
    if (listed := Path("/proc/cpuinfo")).exists():
        lines = listed.read_text().splitlines()
        features = next((x.partition(":")[2].strip() for x in lines if x.startswith(_FEATURES)), features)
    digest = hashlib.sha256(repr((_OPTIONS, width, platform.machine(), features)).encode())
    for source in SOURCES:
        digest.update((FOLDER / source).read_bytes())
    return f"kernel-{digest.hexdigest()[:16]}.so"
