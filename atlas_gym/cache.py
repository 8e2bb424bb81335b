"""Where what this machine has built or converted once is kept: the Burgers kernel, the embedded model."""

import os
from pathlib import Path

CACHE_VARIABLE = "ATLAS_GYM_CACHE"


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """The folder: the argument, else ``$ATLAS_GYM_CACHE``, else ``atlas-gym`` in the user's XDG cache."""
    if cache is not None:
        return Path(cache)
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atlas-gym"
