"""What a confined worker may read: the interpreter, the installed packages and the system's libraries."""

import os
import sys
import sysconfig
from pathlib import Path

from atlas_gym.evaluation.hidden_streams import secret_path

_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom")
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


def read_roots() -> list[str]:
    """The folders and files, links resolved, below which workers may read.

    Raises `RuntimeError` if the secret of the hidden streams would be among them.
    """
    candidates = {*_SYSTEM, f"{sys.base_prefix}/lib", f"{sys.prefix}/lib"}
    candidates |= {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    candidates |= {p for p in sys.path if os.path.basename(p) in _PACKAGE_FOLDERS}
    roots = sorted({os.path.realpath(c) for c in candidates if os.path.exists(c)})
    secret = Path(os.path.realpath(secret_path()))
    exposing = [root for root in roots if secret.is_relative_to(root)]
    if exposing:
        raise RuntimeError(f"the secret {secret} lies below {exposing[0]}, which programs may read: move it")
    return roots
