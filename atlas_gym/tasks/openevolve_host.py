"""The process in which an evaluator written for OpenEvolve runs: `python -m … SOCKET_FD PARENT_PID`.

The evaluator imports the program as ever, by whatever way Python's import system gives. What it gets is a stand-in
whose functions are requests over the socket: the program itself runs in the confined worker, where it can reach
neither the evaluator nor this process. An evaluator that would run the program by other means, in a process that it
starts or from its text, is stopped; so is one that hands the program what cannot be sent.

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
import threading
import types
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np

from atlas_gym.evaluation.pool import receive_frame, send_frame
from atlas_gym.sandbox.codec import decode, encode
from atlas_gym.sandbox.confinement import die_with_parent

_STARTS = (
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn",
)  # fmt: skip
"""Events of Python's audit by which a process begins."""
_MEMORY = 8 * 2**30
"""Address space in bytes: an evaluator may make much of a small answer, and must not take the machine with it."""


class Unfit(Exception):
    """The evaluator does what cannot be done here."""


class Evaluator:
    """One evaluator and its conversation.

    Args:
        connection: To the trusted process.
        program: The path that the evaluator believes to be the program's.
    """

    def __init__(self, connection: socket.socket, program: Path) -> None:
        self._connection = connection
        self._program = program
        self._lock = threading.Lock()  # evaluators call from threads of their own, for their time-outs
        self.unfit = ""
        self.asked = False

    def ask(self, *request: Any) -> Any:
        """What the program answers; arrays in it can be written to."""
        try:
            message = encode(request)
        except (TypeError, OverflowError) as error:
            self._refuse(f"it calls {request[1]} with something that cannot be sent to the program: {error}")
        with self._lock:
            self.asked = True
            send_frame(self._connection, bytes(message))
            return decode(bytearray(receive_frame(self._connection)))

    def run(self, file: Path) -> Mapping[str, Any]:
        """The metrics of the evaluator in a file."""
        self._divert()
        _offer_result_type()
        sys.path.insert(0, str(file.parent))
        spec = importlib.util.spec_from_file_location("evaluator", file)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        module = sys.modules["evaluator"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        result = module.evaluate(str(self._program))
        return getattr(result, "metrics", result)

    def _divert(self) -> None:
        """Importing the program gives the stand-in, whoever imports it; other ways to run it end in `Unfit`."""
        stand_in, program = _StandIn(self), str(self._program)
        create, execute = SourceFileLoader.create_module, SourceFileLoader.exec_module

        def create_module(loader: SourceFileLoader, spec: Any) -> Any:
            return stand_in if loader.path == program else create(loader, spec)

        def exec_module(loader: SourceFileLoader, module: types.ModuleType) -> None:
            if loader.path != program:
                execute(loader, module)

        SourceFileLoader.create_module = create_module  # type: ignore[method-assign, assignment]
        SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign, assignment]
        sys.addaudithook(self._watch)

    def _watch(self, event: str, arguments: tuple) -> None:
        if event in _STARTS:
            self._refuse(f"it starts a process ({event}), in which the program would run beside it")
        if event == "open" and arguments[0] == str(self._program):
            self._refuse("it reads the program's text instead of importing it")

    def _refuse(self, why: str) -> None:
        self.unfit = self.unfit or why  # the evaluator may catch what is raised
        raise Unfit(why)


class _StandIn(types.ModuleType):
    """The program's module, as the evaluator sees it."""

    def __init__(self, evaluator: Evaluator) -> None:
        super().__init__("program")
        self.__dict__["_evaluator"] = evaluator

    def __getattr__(self, name: str) -> Any:
        evaluator = self.__dict__["_evaluator"]
        found = () if name.startswith("__") else evaluator.ask("look", name)
        if not found:
            raise AttributeError(f"the program has no {name}")
        if not found[0]:
            return found[1]
        return lambda *arguments, **keywords: evaluator.ask("call", name, arguments, keywords)


def _offer_result_type() -> None:
    """What evaluators import of OpenEvolve, where it is not installed."""
    if importlib.util.find_spec("openevolve") is None:
        result = types.ModuleType("openevolve.evaluation_result")
        result.EvaluationResult = types.SimpleNamespace  # type: ignore[attr-defined]
        sys.modules |= {"openevolve": types.ModuleType("openevolve"), result.__name__: result}


def _plain(metrics: Any) -> dict[str, Any]:
    """Numbers and texts of the metrics; others are left out."""
    found: dict[str, Any] = {}
    for name, value in dict(metrics).items():
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, str):
            found[str(name)] = value[:1000].encode("utf-8", "replace").decode()
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[str(name)] = float(value)
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
        send_frame(connection, bytes(encode(outcome)))
    os._exit(0)  # threads that it left behind must not keep it


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
