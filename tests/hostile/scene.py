"""What there is to be harmed: a file, a secret, network services, a process; and whether they were."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from atlas_gym.evaluation import Evaluation
from atlas_gym.evaluation.result import STARVED
from atlas_gym.sandbox import boot
from tests.hostile.attack import BOAST

CANARY = "canary-1c9e4b"
ORPHAN_SECONDS = f"86.{os.getpid():07d}"
"""Argument of the `sleep` that attacks start: tells the orphans of this process from everybody else's."""
_WORKER = str(Path(boot.__file__).resolve()).encode()
"""Argument of the workers of this installation, whoever started them."""


class Scene:
    """Everything an attack may reach for; a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="atlas-scene-"))
        self.folder.chmod(0o777)  # an ordinary user's worker could write here, if it were let
        self.marker = self.folder / "marker"
        self.canary_file = self.folder / "canary"
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(str(self.folder / "socket"))
        self._unix.listen()
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind(f"\0atlas-scene-{self.port}")
        self._abstract.listen()
        for service in (self._tcp, self._udp, self._unix, self._abstract):
            service.setblocking(False)
        self._decoy = subprocess.Popen(["sleep", "1000"])
        self.decoy_pid = self._decoy.pid
        self._restore()

    def harm(self, evaluation: Evaluation, honest: float, limit_s: float) -> list[str]:
        """What an attack achieved, by evidence; then everything is put back. Empty if it achieved nothing."""
        spoken = evaluation.detail + evaluation.diagnosis
        found = {
            "wrote a file": sorted(p.name for p in self.folder.iterdir()) != ["canary", "socket"],
            "changed a file": not self._intact(),
            "reached the network": self._was_reached(),
            "stopped or killed a process": not self._decoy_is_well(),
            "got away with it": BOAST in spoken,
            "read a secret": CANARY in spoken,
            "forged a score": evaluation.score is not None and not evaluation.score <= honest,
            # A program that answered in time may still wait for its judge on a busy machine.
            "outlived its limit": not evaluation.ok and evaluation.wall_s > STARVED * limit_s + 1.0,
            "flooded the report": len(evaluation.detail) > 500,
            "smuggled control characters": not evaluation.detail.replace("\n", "").isprintable(),
            "left a process behind": bool(orphans()),
        }
        self._restore()
        return [what for what, happened in found.items() if happened]

    def close(self) -> None:
        """Stop the services and remove the files."""
        for service in (self._tcp, self._udp, self._unix, self._abstract):
            service.close()
        self._decoy.kill()
        self._decoy.wait()
        shutil.rmtree(self.folder)

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _intact(self) -> bool:
        with contextlib.suppress(OSError):
            return self.canary_file.read_text() == CANARY and self.canary_file.stat().st_mode & 0o777 == 0o644
        return False

    def _was_reached(self) -> bool:
        for service in (self._tcp, self._unix, self._abstract):
            with contextlib.suppress(BlockingIOError):
                service.accept()[0].close()
                return True
        with contextlib.suppress(BlockingIOError):
            return bool(self._udp.recv(1))
        return False

    def _decoy_is_well(self) -> bool:
        if self._decoy.poll() is not None:
            return False
        return "State:\tT" not in Path(f"/proc/{self.decoy_pid}/status").read_text()

    def _restore(self) -> None:
        for stray in self.folder.iterdir():
            if stray.name != "socket":
                stray.rmdir() if stray.is_dir() else stray.unlink()
        self.canary_file.write_text(CANARY)
        self.canary_file.chmod(0o644)
        if self._decoy.poll() is None:
            self._decoy.send_signal(18)  # SIGCONT
        else:
            self._decoy = subprocess.Popen(["sleep", "1000"])
            self.decoy_pid = self._decoy.pid


def orphans(patience_s: float = 1.0) -> list[int]:
    """Processes that attacks have left: their `sleep`s, and workers whose whole ancestry has died."""
    deadline = time.monotonic() + patience_s
    while (found := _orphans_now()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _orphans_now() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            command = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            lost_worker = parent == 1 and _WORKER in command
            if lost_worker or ORPHAN_SECONDS.encode() in command:
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]
