"""Evaluations per core-second of the tasks that call programs: confined, and the same scoring with bare calls.

    python -m atlas_gym.experiments.benchmarks.tasks --repeats 5

Both score every program that comes with a task on the same instances and must find the same score. Counted is CPU
time: that of the trusted side, and of the worker that serves the program. Of every figure the least of the repeats is
shown: another job on the machine only adds. The µs are those that the program itself works in a bare call: where they
are few, an evaluation is mostly calls, or the start of its process.
"""

import copy
import math
import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from atlas_gym import make_task
from atlas_gym.arguments import Parser
from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.benchmarks.side_by_side import show
from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.program_task import Calls, Judgement, ProgramTask
from atlas_gym.tasks.registry import BUILT_IN, find_task


class BareRun:
    """A program as a plain function, its answers checked like any other's."""

    def __init__(self, program: Any, name: str, timed: bool) -> None:
        namespace: dict[str, Any] = {"np": np, "math": math}
        exec(program, namespace)
        self._function = namespace[name]
        self._name = name
        self._timed = timed
        self.calls, self.seconds = 0, 0.0

    def __call__(self, *arguments: Any) -> Answer:
        """Call it here."""
        self.calls += 1
        if not self._timed:
            return Answer(self._name, self._function(*arguments))
        began = time.thread_time()
        answer = self._function(*arguments)
        self.seconds += time.thread_time() - began
        return Answer(self._name, answer)

    def keep(self, value: Any) -> Any:
        """The value itself."""
        return value


class BareCalls:
    """What a task's `score_all` asks of a conversation, without any."""

    def __init__(self, program: str, name: str, timed: bool) -> None:
        self._code = compile(program, "<program>", "exec")
        self._name = name
        self._timed = timed
        self.runs: list[BareRun] = []

    def start(self) -> BareRun:
        """A run with module-level variables of its own."""
        self.runs.append(BareRun(self._code, self._name, self._timed))
        return self.runs[-1]

    restart = start

    def ask_all(self, calls: Sequence[tuple[BareRun, Sequence[Any]]]) -> list[Answer]:
        """One after the other."""
        return [run(*arguments) for run, arguments in calls]

    def keep(self, value: Any) -> Any:
        """The value itself."""
        return value


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = Parser(prog="python -m atlas_gym.experiments.benchmarks.tasks", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="rounds in which both ways run once")
    parser.add_argument("--tasks", nargs="+", default=calling(), help="ids (default: all that call programs)")
    options = parser.parse_args(arguments)
    posed = {name: make_task(name, seed=0) for name in options.tasks}
    with ConfinedEvaluator() as evaluator:
        rows = {
            f"{title.removeprefix('ATLAS-')}: {name}": _row(evaluator, task, name, options.repeats)
            for title, task in posed.items()
            for name in task.programs
        }
    heads = ("calls", "µs a call", "bare /s", "confined /s", "ratio")
    show("evaluations per core-second", pd.DataFrame.from_dict(rows, orient="index", columns=heads))


def calling() -> list[str]:
    """The ids of this package's tasks that call programs; the others converse in ways of their own."""
    return [name for name in BUILT_IN if find_task(name).driver == ProgramTask.driver]


def _row(evaluator: ConfinedEvaluator, task: ProgramTask, name: str, repeats: int) -> list[str]:
    program = task.programs[name].program
    task.prepare()
    instances = list(task.instances(task._stream("instances")))
    _, runs = _bare(task, program, copy.deepcopy(instances), timed=True)  # also imports what it imports
    calls, worked = sum(run.calls for run in runs), sum(run.seconds for run in runs)
    bare, confined = [], []
    for _ in range(repeats):
        began = time.thread_time()
        score, _ = _bare(task, program, copy.deepcopy(instances))
        bare.append(time.thread_time() - began)
        began = time.thread_time()
        evaluation = evaluator.evaluate(program, task)
        confined.append(time.thread_time() - began + evaluation.cpu_s)
        # What optimises for long makes much of the last bit of a sum, which hangs on where arrays lie in memory.
        if evaluation.score is None or not math.isclose(evaluation.score, score, abs_tol=1e-6):
            raise ValueError(
                f"{name} scores {evaluation.score} confined and {score} bare: {evaluation.detail}"
            )
    slow, quick = min(confined), min(bare)
    speeds = [f"{1 / quick:.1f}", f"{1 / slow:.1f}", f"{quick / slow:.2f}"]
    return [str(calls), f"{1e6 * worked / calls:.0f}", *speeds]


def _bare(
    task: ProgramTask, program: str, instances: Sequence[Any], timed: bool = False
) -> tuple[float, list[BareRun]]:
    """The score, and the runs of the program; with the time that it worked if that is to be taken."""
    conversation = BareCalls(program, task.function, timed)
    judged = task.score_all(cast(Calls, conversation), instances)
    scores = [judgement.score if isinstance(judgement, Judgement) else judgement for judgement in judged]
    return float(np.mean(np.maximum(scores, task.floor))), conversation.runs


if __name__ == "__main__":
    main()
