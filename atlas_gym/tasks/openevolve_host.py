"""The process in which an evaluator written for OpenEvolve runs: `python -m … SOCKET_FD PARENT_PID`.

The evaluator imports the program as ever, by whatever way Python's import system gives. What it gets is a stand-in,
a file of one line, whose functions are requests over the socket: the program itself runs in the confined worker,
where it can reach neither the evaluator nor this process. An evaluator that would run the program by other means, in
a process that it starts or from its text, is stopped; so is one that hands the program what cannot be sent.

Messages are values in the codec's bytes. First comes what is to be run: the evaluator's file, the path that it is
to believe the program's, a seed for the global random generators, and limits. Then this side asks `("look", name)`
or `("call", name, arguments, keywords)`, and ends with `("done", metrics)` or `("unfit", why)`.
"""

import contextlib
import importlib.util
import math
import os
import random
import resource
import socket
import sys
import types
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np

from atlas_gym.evaluation.processes import receive_frame, send_frame
from atlas_gym.sandbox.codec import decode, encode
from atlas_gym.sandbox.confinement import die_with_parent

_STARTS = (
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn",
)  # fmt: skip
"""Events of Python's audit by which a process begins."""
_DOOR = "atlas_gym_program"
"""Module of this process through which the stand-in asks; the program has no such name."""
_STAND_IN = f"from {_DOOR} import look as __getattr__\n"
_IMPORT = SourceFileLoader.get_data.__code__
"""What opens a file that is imported."""
SCORE = "combined_score"
"""The metric that counts."""
_MEMORY = 8 * 2**30
"""Address space in bytes: an evaluator may make much of a small answer, and must not take the machine with it."""


class Unfit(Exception):
    """The evaluator does what cannot be done here."""


class Evaluator:
    """One evaluator, its connection to the trusted process, and the path that it believes to be the program's."""

    def __init__(self, connection: socket.socket, program: Path) -> None:
        self._connection = connection
        self._program = program
        # Evaluators give a call up after a while, from threads of their own or by an alarm. In a thread of ours every
        # question still gets its answer before the next one is asked, and no message is broken off.
        self._line = ThreadPoolExecutor(max_workers=1)
        self.unfit = ""
        self.asked = False
        self._answered = False

    def ask(self, *request: Any) -> Any:
        """What the program answers; arrays in it can be written to."""
        try:
            message = encode(request)
        except (TypeError, OverflowError) as error:
            why = f"it calls {request[1]} with something that cannot be sent to the program: {error}"
            if self._answered:  # which may be made of an answer, and then says nothing against the evaluator
                raise TypeError(why) from None
            self._refuse(why)
        self.asked = True
        answer = decode(self._line.submit(self._exchange, bytes(message)).result())
        self._answered |= request[0] == "call"
        return answer

    def end(self, outcome: tuple) -> None:
        """Say how it came out, once every question has had its answer."""
        self._line.submit(send_frame, self._connection, bytes(encode(outcome))).result()

    def _exchange(self, message: bytes) -> bytearray:
        send_frame(self._connection, message)
        return bytearray(receive_frame(self._connection))

    def look(self, name: str) -> Any:
        """What a name stands for in the program, as Python asks a module for it."""
        found = () if name.startswith("__") else self.ask("look", name)
        if not found:
            raise AttributeError(f"the program has no {name}")
        if not found[0]:
            self._answered = True
            return found[1]
        return lambda *arguments, **keywords: self.ask("call", name, arguments, keywords)

    def run(self, file: Path) -> Mapping[str, Any]:
        """The metrics of the evaluator in a file."""
        self._program.write_text(_STAND_IN)
        _offer(_DOOR, look=self.look)
        if importlib.util.find_spec("openevolve") is None:
            _offer("openevolve.evaluation_result", EvaluationResult=types.SimpleNamespace)
        sys.addaudithook(self._watch)
        sys.path.insert(0, str(file.parent))
        result = importlib.import_module(file.stem).evaluate(str(self._program))
        return getattr(result, "metrics", result)

    def _watch(self, event: str, arguments: tuple) -> None:
        if event in _STARTS:
            self._refuse(f"it starts a process ({event}), in which the program would run beside it")
        if event == "open" and arguments[0] == str(self._program) and sys._getframe(1).f_code is not _IMPORT:
            self._refuse("it reads the program's text instead of importing it")

    def _refuse(self, why: str) -> None:
        self.unfit = self.unfit or why  # the evaluator may catch what is raised
        raise Unfit(why)


def _offer(name: str, **content: Any) -> None:
    """A module that can be imported by this name, maybe from a package that is not there."""
    package, _, _ = name.rpartition(".")
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(content)
    if package:
        _offer(package)


def _plain(metrics: Any) -> dict[str, Any]:
    """Numbers and texts of the metrics; others are left out. TypeError if the score is one of these."""
    found: dict[str, Any] = {}
    for name, value in dict(metrics).items():
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[str(name)] = float(value)
        elif name == SCORE:  # left out, the mean of the other metrics would count
            raise TypeError(f"{SCORE} is of type {type(value).__name__}, which is no number")
        elif isinstance(value, str):
            found[str(name)] = value[:1000].encode("utf-8", "replace").decode()
    return found


def main(socket_fd: int, parent: int) -> None:
    """Run one evaluator to its end."""
    die_with_parent()
    if os.getppid() != parent:
        return
    connection = socket.socket(fileno=socket_fd)
    file, program, seed, cpu_s = decode(receive_frame(connection))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_s), math.ceil(cpu_s) + 1))
    random.seed(seed)
    np.random.seed(seed)
    evaluator = Evaluator(connection, Path(program))
    try:
        outcome: tuple = ("done", _plain(evaluator.run(Path(file))))
    except BaseException as error:  # noqa: BLE001 - also `sys.exit`: it takes answers as they come, which may break it
        outcome = ("broken", f"{type(error).__name__}: {error}"[:1000].encode("utf-8", "replace").decode())
    if evaluator.unfit or not evaluator.asked:
        outcome = ("unfit", evaluator.unfit or f"it never came to the program's module ({outcome[1]})")
    with contextlib.suppress(OSError):  # the program failed meanwhile, so nobody wants to know
        evaluator.end(outcome)
    os._exit(0)  # threads that it left behind must not keep it


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
