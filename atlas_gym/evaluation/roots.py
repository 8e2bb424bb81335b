"""What may be read while a program's imports are met: the standard library, numpy, scipy, torch, libraries.

No folder of installed packages is among it as a whole: this package's own expert programs may lie there.
Once the program itself runs, it opens nothing at all (`seccomp.program_filter`).
"""

import contextlib
import os
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from atlas_gym.hidden_streams import SecretError, secret_path
from atlas_gym.sandbox.imports import PACKAGES

_DEVICES = ("/etc/ld.so.cache", "/dev/null", "/dev/urandom")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_THIS_PACKAGE = Path(__file__).resolve().parents[1]


def read_roots() -> list[str]:
    """The folders and files, links resolved, below which workers may read.

    Raises `RuntimeError` if the secret of the hidden streams, or this package, would be among them.
    """
    candidates = set(_DEVICES)
    for name in ("stdlib", "platstdlib"):
        folder = sysconfig.get_path(name)
        if os.path.isdir(folder):
            candidates |= {e.path for e in os.scandir(folder) if not e.name.endswith("-packages")}
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            place = Path(spec.origin)
            candidates.add(str(place.parent if spec.submodule_search_locations else place))
            if spec.submodule_search_locations:
                candidates.add(str(place.parents[1] / f"{name}.libs"))  # shared objects that came with it
    # Files, not their folders, in which packages may lie: what the standard library's extension modules link to.
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    for folder in {*_LIBRARIES, *(f"{folder}/{triplet}" for folder in _LIBRARIES), f"{sys.base_prefix}/lib"}:
        if os.path.isdir(folder):
            candidates |= {e.path for e in os.scandir(folder) if ".so" in e.name and e.is_file()}
    roots = sorted({os.path.realpath(c) for c in candidates if os.path.exists(c)})
    hidden = [(_THIS_PACKAGE, "this package")]
    with contextlib.suppress(SecretError):  # a user without a home folder has the secret in a variable
        hidden.append((Path(os.path.realpath(secret_path())), "the secret"))
    for private, what in hidden:
        exposing = [root for root in roots if private.is_relative_to(root)]
        if exposing:
            raise RuntimeError(
                f"{what}, {private}, lies below {exposing[0]}, which programs may read: move it"
            )
    return roots
