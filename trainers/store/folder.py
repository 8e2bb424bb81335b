"""A run's folder, which may be a stranger's: nothing in it leads elsewhere, and files are written anew."""

import os
import secrets
import stat
from pathlib import Path

from atlas_gym.trainers.store.rows import StoreError

_FOREIGN = "wandb"
"""Of W&B, which makes links of its own there and opens nothing by their names."""


def refuse_links(folder: Path) -> None:
    """Raise `StoreError` if something in a folder is neither a file nor a folder: to write there could overwrite
    anything. So could a rollback journal, in which SQLite reads the name of a file that it deletes."""
    for place, folders, files in os.walk(folder):
        if place == os.fspath(folder):
            folders[:] = [name for name in folders if name != _FOREIGN or Path(place, name).is_symlink()]
        for path in (Path(place, name) for name in (*folders, *files)):
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:  # a run under way has moved or removed it
                continue
            journal = path.name.endswith("-journal")
            if journal or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                kind = f"a link to {os.readlink(path)!r}" if stat.S_ISLNK(mode) else "no file"
                kind = "a rollback journal" if journal else kind
                raise StoreError(
                    f"{path} is {kind}, which no run has made: remove it, or put a copy of the file in its place."
                )


def write_anew(path: Path, content: str | bytes) -> Path:
    """Write a file beside its place and rename it, so that no link is followed and half a file never left. Raises
    OSError that names `path`."""
    data = content.encode(errors="replace") if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666), "wb") as file:
            file.write(data)
        aside.replace(path)
    except OSError as error:  # a full disk does not say where it is
        aside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path
