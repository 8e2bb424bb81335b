"""Where a user's files lie: what this machine has built or converted once (the Burgers kernel, the embedded model)."""

import os
from pathlib import Path

CACHE_VARIABLE = "ATLAS_GYM_CACHE"


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """The folder: the argument, else ``$ATLAS_GYM_CACHE``, else ``atlas-gym`` in the user's XDG cache."""
    if cache is not None:
        return Path(cache)
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return xdg_folder("XDG_CACHE_HOME", ".cache", CACHE_VARIABLE) / "atlas-gym"


def xdg_folder(variable: str, within_home: str, instead: str) -> Path:
    """A user's folder of a kind (XDG base directories); OSError names what to set where the user has no home."""
    try:
        return Path(os.environ.get(variable) or Path.home() / within_home)
    except RuntimeError as error:  # a container under a number that its system does not know
        raise OSError(f"this user has no home folder: set HOME, {variable} or {instead}") from error
