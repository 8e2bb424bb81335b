"""The process in which an evaluator written for OpenEvolve runs: `python -m … SOCKET_FD PARENT_PID`.

The evaluator imports a proxy of one line, whose functions are requests over the socket; the program itself runs in the
confined worker. An evaluator that would run the program in a process that it starts, or from its text, is stopped; so
is one that hands the program what cannot be sent. Messages are values in the codec's bytes: first the evaluator's
file, the program's path, a seed and seconds of CPU time; then this side asks `("look", name)` or `("call", name,
arguments, keywords)`, and ends with `("done", metrics)`, `("broken", error)` or `("unfit", why)`.
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
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np

from atlas_gym.evaluation.processes import receive_frame, send_frame
from atlas_gym.sandbox.codec import decode, encode
from atlas_gym.sandbox.confinement import die_with_parent

_OS_STARTS = "system exec fork forkpty posix_spawn spawn"
_STARTS = {"subprocess.Popen", "pty.spawn", *map("os.{}".format, _OS_STARTS.split())}
"""Events of Python's audit by which a process begins."""
_PROXY_MODULE = "atlas_gym_program"
"""Module of this process that the proxy asks; the program has no such name."""
_PROXY = f"from {_PROXY_MODULE} import look as __getattr__\n"
_IMPORT = SourceFileLoader.get_data.__code__
"""What opens a file that is imported."""
_SCORE, _RESULTS = "combined_score", "openevolve.evaluation_result"
_MEMORY = 8 * 2**30
"""Address space in bytes: an evaluator may make much of a small answer."""


class Unfit(Exception):
    """The evaluator does what cannot be done here."""


class Host:
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
        """The program's answer; arrays in it can be written to."""
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

    def _exchange(self, message: bytes) -> bytearray:
        send_frame(self._connection, message)
        return bytearray(receive_frame(self._connection))

    def end(self, outcome: tuple) -> None:
        """Say how it came out, once every question has had its answer."""
        self._line.submit(send_frame, self._connection, bytes(encode(outcome))).result()

    def look(self, name: str) -> Any:
        """An attribute of the program's module: a value, or a function that asks."""
        found = () if name.startswith("__") else self.ask("look", name)
        if not found:
            raise AttributeError(f"the program has no {name}")
        if not found[0]:
            self._answered = True
            return found[1]
        return lambda *arguments, **keywords: self.ask("call", name, arguments, keywords)

    def run(self, file: Path) -> dict[str, Any]:
        """The evaluator's metrics that are numbers or texts; TypeError if the score is neither."""
        self._program.write_text(_PROXY)
        modules: dict[str, dict[str, Any]] = {_PROXY_MODULE: {"look": self.look}}
        if importlib.util.find_spec("openevolve") is None:
            modules |= {"openevolve": {}, _RESULTS: {"EvaluationResult": types.SimpleNamespace}}
        for name, content in modules.items():
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(content)
        sys.addaudithook(self._watch)
        sys.path.insert(0, str(file.parent))
        result = importlib.import_module(file.stem).evaluate(str(self._program))
        found: dict[str, Any] = {}
        for name, value in dict(getattr(result, "metrics", result)).items():
            value = value.item() if isinstance(value, np.generic) else value
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[str(name)] = float(value)
            elif name == _SCORE:  # left out, the mean of the other metrics would count
                raise TypeError(f"{_SCORE} is of type {type(value).__name__}, which is no number")
            elif isinstance(value, str):
                found[str(name)] = _utf8(value)
        return found

    def _watch(self, event: str, arguments: tuple) -> None:
        if event in _STARTS:
            self._refuse(f"it starts a process ({event}), in which the program would run beside it")
        if event == "open" and arguments[0] == str(self._program) and sys._getframe(1).f_code is not _IMPORT:
            self._refuse("it reads the program's text instead of importing it")

    def _refuse(self, why: str) -> None:
        self.unfit = self.unfit or why  # the evaluator may catch what is raised
        raise Unfit(why)


def _utf8(text: str) -> str:
    return text[:1000].encode("utf-8", "replace").decode()


def main(socket_fd: int, parent: int) -> None:
    die_with_parent()
    if os.getppid() != parent:
        return
    connection = socket.socket(fileno=socket_fd)
    file, program, seed, cpu_s = decode(receive_frame(connection))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_s), math.ceil(cpu_s) + 1))
    random.seed(seed)
    np.random.seed(seed)
    host = Host(connection, Path(program))
    try:
        outcome: tuple = ("done", host.run(Path(file)))
    except BaseException as error:  # noqa: BLE001 - also `sys.exit`: it takes answers as they come, which may break it
        outcome = ("broken", _utf8(f"{type(error).__name__}: {error}"))
    if host.unfit or not host.asked:
        outcome = ("unfit", host.unfit or f"it never came to the program's module ({outcome[1]})")
    with contextlib.suppress(OSError):  # the program failed meanwhile, so nobody wants to know
        host.end(outcome)
    os._exit(0)  # threads that it left behind must not keep it


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
