"""Folders in OpenEvolve's form as tasks: `make_task("./folder")`.

A folder holds `initial_program.py`, `evaluator.py` with `evaluate(program_path)` and maybe `config.yaml`. The
evaluator is its author's and trusted; it runs as it is in a process of its own for every evaluation. The module that
it imports from `program_path` is a stand-in for the program, which runs in the confined worker: what comes back are
values, so a program can patch neither its evaluator nor what that one imports. A score is as strict as its
evaluator; answers with NaN in them, which pass most comparisons unnoticed, are refused.
"""

import ast
import contextlib
import math
import socket
import subprocess
import tempfile
from collections.abc import Iterator
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
"""The files of a folder; the last one may be missing."""
_TIMEOUT_S = 300.0
"""OpenEvolve's own limit on an evaluation, where the folder names none."""


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
        """Let the evaluator have its way with the stand-in.

        Raises:
            CandidateError: If the program fails, or the evaluator on its answers.
            EvaluatorError: If the evaluator cannot be used like this; it says why.
        """
        with _host(self.folder, instance, self.limits) as connection:
            metrics = _converse(connection, program)
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

    Raises:
        FileNotFoundError: If the initial program is missing.
        ValueError: If one of the files cannot be used as it is, if the evaluator mentions no function of the initial
            program, or if the folder is not known.
    """
    folder = folder.resolve()
    if folder not in _known and not importing:
        raise ValueError(f"{folder} is a folder with code of its own: name it yourself first")
    if folder not in _known:
        start = (folder / START).read_text(encoding="utf-8")
        words, timeout_s = _config(folder / CONFIG)
        members = {
            "__module__": __name__,
            "__doc__": words,
            "folder": folder,
            "function": _function(start, (folder / EVALUATOR).read_text(encoding="utf-8")),
            "start": start,
            "limits": Limits(wall_s=timeout_s, cpu_s=timeout_s, memory_mb=2048),
        }
        name = "".join(part.capitalize() for part in folder.name.replace("-", "_").split("_"))
        kind: Any = type(name, (OpenEvolveTask,), members)
        kind.env_id = str(folder)
        _known[folder] = kind
    return _known[folder]


def _function(start: str, evaluator: str) -> str:
    """The function that is to be improved: of those between the marks, or of all if there are no marks, the last one
    that the evaluator calls, or else the longest."""
    trees = {}
    for file, text in ((EVALUATOR, evaluator), (START, start)):
        try:
            trees[file] = ast.parse(text)
        except SyntaxError as error:
            where = f"line {error.lineno}: {error.msg}"
            raise ValueError(f"{file} does not parse: {where}; repair it there") from None
    nodes = list(ast.walk(trees[EVALUATOR]))
    mentioned = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    mentioned |= {node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str}
    defined = [node for node in trees[START].body if isinstance(node, ast.FunctionDef)]
    if not any(node.name in mentioned for node in defined):
        names = ", ".join(node.name for node in defined) or "none"
        raise ValueError(
            f"{EVALUATOR} mentions none of the functions of {START} ({names}): it does not import the program and"
            " call a function, which is what can be done here"
        )
    lines = list(enumerate(start.splitlines(), 1))
    begin, end = (
        next((number for number, line in lines if f"EVOLVE-BLOCK-{mark}" in line), 0)
        for mark in ("START", "END")
    )
    marked = [node for node in defined if begin <= node.lineno <= (end or math.inf)] or defined
    called = [node for node in marked if node.name in mentioned]
    return (called[-1] if called else max(marked, key=lambda node: (node.end_lineno or 0) - node.lineno)).name


def _config(file: Path) -> tuple[str, float]:
    """The task in words and the seconds of an evaluation."""
    found: Any = {}
    if file.is_file():
        require("yaml", "learn")
        from atlas_gym import yaml_text

        try:
            found = yaml_text.read(file)
        except ValueError as error:
            raise ValueError(f"{CONFIG} is no YAML; repair it: {error}") from None
    sections = found if isinstance(found, dict) else {}
    for name in ("prompt", "evaluator"):
        if not isinstance(sections.get(name, {}), dict):
            lack = f"{CONFIG} has {sections[name]!r} for {name}"
            raise ValueError(f"{lack}; write its entries below it, or leave it out")
    given = sections.get("evaluator", {}).get("timeout", _TIMEOUT_S)
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"{CONFIG} has {given!r} for the evaluator's timeout; give seconds, or leave it out")
    return sections.get("prompt", {}).get("system_message") or "Improve the program.", seconds


@contextlib.contextmanager
def _host(folder: Path, seed: int, limits: Limits) -> Iterator[socket.socket]:
    """A process that runs the folder's evaluator once, and ends with the block."""
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as empty:
        program = Path(empty).resolve() / "candidate_program.py"
        process, ours = start_beside("atlas_gym.tasks.openevolve_host", **nowhere)
        try:
            send_frame(ours, bytes(encode((str(folder / EVALUATOR), str(program), seed, limits.cpu_s))))
            ours.settimeout(STARVED * limits.wall_s)
            yield ours
        finally:
            ours.close()
            process.kill()
            process.wait()


def _converse(connection: socket.socket, program: Program) -> dict[str, Any]:
    """Carry the evaluator's requests to the program until it has its metrics."""
    while True:
        try:
            kind, *rest = decode(receive_frame(connection))
        except TimeoutError:
            raise CandidateError("the evaluator came to no end with it", Status.TIMEOUT) from None
        except OSError:  # killed by its limits, or crashed
            raise CandidateError(
                "the evaluator's process ended on its answers: too much time or memory"
            ) from None
        if kind == "done":
            return rest[0]
        if kind == "broken":
            raise CandidateError(f"the evaluator failed on its answers: {rest[0]}")
        if kind == "unfit":
            raise EvaluatorError(f"this evaluator cannot be used: {rest[0]}")
        name, arguments, keywords = rest if kind == "call" else (rest[0], None, None)
        answer = program(name, arguments, keywords)
        if has_nan(answer.value):
            raise CandidateError(f"{name} returned NaN; return numbers")
        with contextlib.suppress(OSError):  # it has ended meanwhile: what it said last is still to be read
            send_frame(connection, bytes(encode(answer.value)))


def has_nan(value: Any) -> bool:
    """Whether there is a NaN anywhere in a value of the codec's kinds."""
    if type(value) is float:
        return math.isnan(value)
    if type(value) is np.ndarray:
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    if type(value) is dict:
        return any(map(has_nan, value.values()))
    return type(value) in (list, tuple) and any(map(has_nan, value))
