"""Runs a command as user `nobody`, for tests that are themselves run by root.

Where the interpreter, the environment or this project lie below a folder that only root may enter (an
interpreter in /root, say), the command runs in a mount namespace of its own, in which just these are visible
there and nothing else.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

NOBODY = 65534
PROJECT = Path(__file__).resolve().parents[2]


def run_as_nobody(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run `command` in the project's folder, with an empty home. Needs to be called as root."""
    with tempfile.TemporaryDirectory(prefix="atlas-nobody-") as home:
        os.chown(home, NOBODY, NOBODY)
        return _run(command, home)


def _run(command: Sequence[str], home: str) -> "subprocess.CompletedProcess[str]":
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=-all"
    script = f"{_uncover()}\ncd {shlex.quote(str(PROJECT))}\nexec {user} {shlex.join(command)}"
    environment = {"HOME": home, "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
        env=environment,
        capture_output=True,
        text=True,
    )


def _uncover() -> str:
    """Shell commands that hide each private folder behind an empty one with only the needed parts in it."""
    needed = [Path(sys.base_prefix), Path(sys.prefix), PROJECT]
    lines = []
    for private in sorted({folder for path in needed if (folder := _private_folder_above(path))}):
        inside = [path for path in needed if path.is_relative_to(private)]
        for number, path in enumerate(inside):
            lines += [f"mkdir -p /mnt/atlas-{number}", f"mount --bind {path} /mnt/atlas-{number}"]
        lines.append(f"mount -t tmpfs -o mode=755 none {private}")
        for number, path in enumerate(inside):
            lines += [f"mkdir -p {path}", f"mount --bind /mnt/atlas-{number} {path}"]
    return "\n".join(lines)


def _private_folder_above(path: Path) -> Path | None:
    """The topmost folder on the way to `path` that other users may not enter."""
    for folder in reversed([path, *path.parents]):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None
