"""The worker: one forked process that runs one program and is then gone.

`run` is entered right after the fork. It keeps none of the fork server's descriptors but the channel, reads the limits,
puts the layers on, says READY, and only then compiles the program, meets its imports and gives up files. From there on
nothing in this process is trusted: the program may replace any function of this file.
"""

import math
import os
import random
import signal
import sys
import types
from collections.abc import Callable
from struct import Struct
from typing import Any, NoReturn

import numpy as np

from atlas_gym.sandbox import failure
from atlas_gym.sandbox.confinement import Confinement, die_with_parent
from atlas_gym.sandbox.imports import import_ahead
from atlas_gym.sandbox.wire import DATA, READY, START, write_all

DESCRIPTORS = 256
"""No descriptor of the fork server is as high."""
_USUAL_REQUEST = 8192
"""Requests up to this long arrive in one read."""
_DATA_TAG = bytes([DATA])


class WorkerPipe:
    """The worker's end of the channel, as drivers use it."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd

    def receive(self, n: int) -> bytearray:
        """Exactly `n` bytes from the trusted side, in a new buffer. Ends the process if that side is gone."""
        buffer = bytearray(n)
        got = os.readv(self._read_fd, (buffer,))
        while got < n:
            got += self._more(buffer, got)
        return buffer

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        """Send `payload` as one message; the trusted side must be asking for just as many bytes."""
        self.send_raw(_DATA_TAG + payload)

    def receive_request(self, head: Struct) -> bytearray:
        """A head and what follows it, in a new buffer; the head's last field is the length of the rest."""
        first = b""
        while len(first) < head.size:
            part = os.read(self._read_fd, _USUAL_REQUEST)
            if not part:
                os._exit(0)
            first += part
        size, got = head.size + head.unpack_from(first)[-1], len(first)
        if got == size:
            return bytearray(first)
        whole = bytearray(size)
        whole[:got] = first
        while got < size:
            got += self._more(whole, got)
        return whole

    def send_raw(self, data: bytes | bytearray) -> None:
        """Send bytes without a tag."""
        written = os.write(self._write_fd, data)
        if written != len(data):
            write_all(self._write_fd, memoryview(data)[written:])

    def _more(self, buffer: bytearray, got: int) -> int:
        more = os.readv(self._read_fd, (memoryview(buffer)[got:],))
        if more == 0:
            os._exit(0)  # the trusted side has hung up: the evaluation is over
        return more


def prepared(source: str, function: str) -> Callable[[], Callable[..., Any]]:
    """Compile a program and import what it imports, without running it; returns what drivers call `load`.

    `load` runs the program in a fresh namespace and returns its entry function, or raises what went wrong here. Not
    earlier: a worker that ends before the task has spoken to it would look as if it had crashed.
    """
    code: types.CodeType
    mistake: BaseException | None = None
    try:
        code = compile(source, failure.PROGRAM_FILE, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        mistake = failure.InvalidProgram(line + error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        mistake = failure.InvalidProgram(f"it cannot be compiled: {str(error) or 'nested too deeply'}")
    else:
        try:
            import_ahead(code)
        except (MemoryError, SystemExit) as error:
            mistake = error

    def load() -> Callable[..., Any]:
        if mistake is not None:
            raise mistake
        module = types.ModuleType(failure.PROGRAM_NAME)
        vars(module).update(np=np, math=math)
        if torch := sys.modules.get("torch"):
            vars(module).update(torch=torch, F=torch.nn.functional)
        sys.modules[module.__name__] = module  # dataclasses and the like look their module up
        exec(code, vars(module))
        entry = vars(module).get(function)
        if not callable(entry):
            raise failure.InvalidProgram(f"it does not define {function}")
        return entry

    return load


def run(read_fd: int, write_fd: int, serve: Callable[..., None], confinement: Confinement) -> NoReturn:
    """Be the worker on these two descriptors; never returns."""
    os.setsid()
    die_with_parent()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for standard in (1, 2):
        os.dup2(0, standard)  # descriptor 0 is /dev/null, open both ways
    low = 3
    for kept in sorted((read_fd, write_fd)):
        os.closerange(low, kept)
        low = kept + 1
    os.closerange(low, DESCRIPTORS)
    pipe = WorkerPipe(read_fd, write_fd)
    memory_mb, cpu_s, core, error_chars, name_length, source_length = START.unpack(pipe.receive(START.size))
    function = pipe.receive(name_length).decode()
    source = pipe.receive(source_length).decode()
    if core >= 0:  # next to the trusted side: a step between two cores costs six times one within a core
        os.sched_setaffinity(0, {core})
    _fix_randomness()
    confinement.confine_worker(memory_mb, cpu_s)
    pipe.send(READY.pack(os.getpid()))
    try:
        load = prepared(source, function)
        confinement.seal()
        serve(load, pipe)
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is its outcome
        pipe.send_raw(failure.error_frame(error, source, error_chars))
        os._exit(1)
    os._exit(0)


def _fix_randomness() -> None:
    """The same program gets the same draws in every evaluation, also of generators that it makes without a seed."""
    random.seed(0)
    np.random.seed(0)
    system = random.Random(0)
    vars(np.random.bit_generator)["randbits"] = system.getrandbits  # what numpy seeds itself from
    os.urandom = vars(random)["_urandom"] = system.randbytes  # what uuid and SystemRandom draw from
    os.getrandom = lambda size, flags=0: system.randbytes(size)
    seed = random.Random.seed

    def seed_anyway(generator: random.Random, a: Any = None, version: int = 2) -> None:
        seed(generator, system.getrandbits(128) if a is None else a, version)

    random.Random.seed = seed_anyway  # type: ignore[assignment, method-assign]
    random.seed = types.MethodType(seed_anyway, vars(random)["_inst"])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)
