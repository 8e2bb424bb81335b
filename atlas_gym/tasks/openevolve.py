"""Folders in OpenEvolve's form as tasks: `make_task("./folder")`.

A folder holds `initial_program.py`, `evaluator.py` with `evaluate(program_path)` and maybe `config.yaml`. The
evaluator is its author's and trusted; it runs unchanged in a process of its own for every evaluation. The module that
it imports from `program_path` is a proxy for the program, which runs in the confined worker: what comes back are
values, so a program can patch neither its evaluator nor what that one imports. Answers with NaN are refused: they
pass most comparisons unnoticed.
"""

import ast
import contextlib
import math
import socket
import subprocess
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

import numpy as np

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.evaluation.processes import receive_frame, send_frame, start_beside
from atlas_gym.evaluation.result import STARVED, EvaluatorError, Judgement, Limits, Status
from atlas_gym.optional import require
from atlas_gym.sandbox.codec import decode, encode
from atlas_gym.tasks.calls import Program
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.text import sanitise

EVALUATOR, START, CONFIG = "evaluator.py", "initial_program.py", "config.yaml"
_TIMEOUT_S = 300.0
"""OpenEvolve's own limit on an evaluation, where the folder names none."""
_MARKS = ("EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END")


class OpenEvolveTask(ProgramTask):
    """Base of such tasks. The score is `combined_score` on a scale from -1 (`worst`) to 0 (`best`)."""

    driver = "atlas_gym.sandbox.module_driver"
    folder: ClassVar[Path] = Path()
    """Where the evaluator is."""

    best: float = 1.0
    """The `combined_score` that counts as perfect; without one, the mean of all metrics is it."""
    worst: float = 0.0
    """The `combined_score` that a useless program earns."""

    def __post_init__(self) -> None:
        if not 0 < abs(self.best - self.worst) < math.inf:
            raise ValueError(f"best is {self.best} and worst {self.worst}; they must differ, and be finite")

    def instances(self, rng: np.random.Generator) -> list[int]:
        """What the evaluator's global random generators are seeded with."""
        return [int(rng.integers(2**32))]

    def score(self, program: Program, instance: int) -> Judgement:
        """The evaluator's metrics as a score.

        Raises CandidateError if the program fails, or the evaluator on its answers; EvaluatorError for an evaluator
        that cannot be used like this.
        """
        with tempfile.TemporaryDirectory() as empty:
            place = Path(empty).resolve() / "candidate_program.py"
            nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process, connection = start_beside("atlas_gym.tasks.openevolve_host", **nowhere)
            try:
                about = (str(self.folder / EVALUATOR), str(place), instance, self.limits.cpu_s)
                send_frame(connection, bytes(encode(about)))
                connection.settimeout(STARVED * self.limits.wall_s)
                metrics = _converse(connection, program)
            finally:
                connection.close()
                process.kill()
                process.wait()
        if type(metrics.get("error")) is str and metrics["error"]:
            raise CandidateError(metrics["error"])
        numbers = {name: value for name, value in metrics.items() if type(value) is float}
        if not numbers:
            raise CandidateError(f"{EVALUATOR} returns no numbers for its answers")
        combined = numbers.get("combined_score", mean(numbers.values()))  # as OpenEvolve has it
        shown = ", ".join(f"{name} {value:.6g}" for name, value in numbers.items())
        told = sanitise(f"{shown}.", self.limits.error_chars)  # names may be the program's
        return Judgement((combined - self.best) / (self.best - self.worst), diagnosis=told)


_known: dict[Path, type[OpenEvolveTask]] = {}


def folder_task(folder: Path, *, importing: bool = True) -> type[OpenEvolveTask]:
    """The task of a folder, whose evaluator runs in evaluations only; `importing` as for `registry.find_task`.

    Raises FileNotFoundError without an initial program, ValueError for files that cannot be used or an unknown folder.
    """
    folder = folder.resolve()
    if folder in _known:
        return _known[folder]
    if not importing:
        raise ValueError(f"{folder} is a folder with code of its own: name it yourself first")
    start = (folder / START).read_text(encoding="utf-8")
    config: Any = {}
    if (folder / CONFIG).is_file():
        require("yaml", "learn")
        from atlas_gym import yaml_text

        try:
            config = yaml_text.read(folder / CONFIG) or {}
        except ValueError as error:
            raise ValueError(f"{CONFIG} is no YAML; repair it: {error}") from None
    try:
        seconds = float(config.get("evaluator", {}).get("timeout", _TIMEOUT_S))
        words = config.get("prompt", {}).get("system_message") or "Improve the program."
        limits = Limits(wall_s=seconds, cpu_s=seconds, memory_mb=2048)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{CONFIG} cannot be used ({error}): prompt and evaluator are sections") from None
    function = _function(start, (folder / EVALUATOR).read_text(encoding="utf-8"))
    members = {"__module__": __name__, "__doc__": words, "folder": folder, "function": function}
    members |= {"start": start, "limits": limits}
    name = "".join(part.capitalize() for part in folder.name.replace("-", "_").split("_"))
    kind: Any = type(name, (OpenEvolveTask,), members)
    kind.env_id = str(folder)
    _known[folder] = kind
    return kind


def _function(start: str, evaluator: str) -> str:
    """The function to be improved: of those between the marks (of all without marks) the last one that the evaluator
    calls, or else the longest."""
    try:
        nodes = list(ast.walk(ast.parse(evaluator, EVALUATOR)))
        defined = [node for node in ast.parse(start, START).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError as error:
        raise ValueError(f"{error.filename} does not parse: line {error.lineno}: {error.msg}") from None
    mentioned = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    mentioned |= {node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str}
    if not any(node.name in mentioned for node in defined):
        names = ", ".join(node.name for node in defined) or "none"
        raise ValueError(
            f"{EVALUATOR} mentions none of the functions of {START} ({names}): it does not import the program and"
            " call a function, which is what can be done here"
        )
    marks = {mark: k for k, line in enumerate(start.splitlines(), 1) for mark in _MARKS if mark in line}
    begin, end = marks.get(_MARKS[0], 0), marks.get(_MARKS[1], math.inf)
    marked = [node for node in defined if begin <= node.lineno <= end] or defined
    called = [node for node in marked if node.name in mentioned]
    return (called[-1] if called else max(marked, key=lambda node: (node.end_lineno or 0) - node.lineno)).name


def _converse(connection: socket.socket, program: Program) -> dict[str, Any]:
    """Carry the evaluator's requests to the program until it has its metrics."""
    while True:
        try:
            kind, *rest = decode(receive_frame(connection))
        except TimeoutError:
            raise CandidateError("the evaluator came to no end with it", Status.TIMEOUT) from None
        except OSError:  # killed by its limits, or crashed
            raise CandidateError("the evaluator's process ended: too much time or memory") from None
        if kind == "done":
            return rest[0]
        if kind == "broken":
            raise CandidateError(f"the evaluator failed on its answers: {rest[0]}")
        if kind == "unfit":
            raise EvaluatorError(f"this evaluator cannot be used: {rest[0]}")
        name, arguments, keywords = rest if kind == "call" else (rest[0], None, None)
        answer = program(name, arguments, keywords)
        if _has_nan(answer.value):
            raise CandidateError(f"{name} returned NaN; return numbers")
        with contextlib.suppress(OSError):  # it has ended meanwhile: what it said last is still to be read
            send_frame(connection, bytes(encode(answer.value)))


def _has_nan(value: Any) -> bool:
    """Whether there is a NaN anywhere in a value of the codec's kinds."""
    if type(value) is float:
        return math.isnan(value)
    if type(value) is np.ndarray:
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    if type(value) is dict:
        return any(map(_has_nan, value.values()))
    return type(value) in (list, tuple) and any(map(_has_nan, value))
