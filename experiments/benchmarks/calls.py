"""What a call of a confined program costs, in µs of CPU of both processes, beside a bare call and a pipe's round trip.

    python -m atlas_gym.experiments.benchmarks.calls --calls 20000 --repeats 5

Of every figure the least of the repeats is shown: another job on the machine only adds. `batched`: a hundred calls in
one exchange. `kept`: the arguments were sent once before.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import atlas_gym
from atlas_gym.arguments import Parser
from atlas_gym.evaluation import ConfinedEvaluator, Limits
from atlas_gym.experiments.benchmarks.side_by_side import scored, show
from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.calls import Program

SMALL, MIDDLE, LARGE = np.arange(20.0), np.arange(1000.0), np.zeros((200, 200))
Check = Callable[[Answer], Any]

CASES: dict[str, tuple[tuple[Any, ...], str, Check]] = {
    "number → number": ((1.5,), "x", lambda answer: answer.number()),
    "number, array(20) → array(20)": ((1.5, SMALL), "y", lambda answer: answer.array(20)),
    "array(1000) → array(1000)": ((MIDDLE,), "x", lambda answer: answer.array(1000)),
    "array(200 × 200) → number": ((LARGE,), "1.0", lambda answer: answer.number()),
    "list of 10 → list of 10": (([1.0] * 10,), "x", lambda answer: answer.array(10)),
}
"""Arguments, what the program returns of `x` and `y`, and how the answer is checked."""
BATCH = 100


class CallCost(atlas_gym.ProgramTask):
    """Calls a program many times over and takes the trusted side's CPU time."""

    start = "def answer(x, y=None):\n    return x\n"
    limits = Limits(wall_s=120.0, cpu_s=120.0)

    case: str = "number → number"
    calls: int = 1000
    way: str = "single"

    def instances(self, rng: np.random.Generator) -> list[int]:
        """One is enough."""
        return [0]

    def score(self, program: Program, instance: int) -> atlas_gym.Judgement:
        """No score: the trace holds the seconds."""
        arguments, _, check = CASES[self.case]
        if self.way == "kept":
            arguments = tuple(program.keep(argument) for argument in arguments)
        began = time.thread_time()
        if self.way == "batched":
            for done in range(0, self.calls, BATCH):
                for answer in program.batch([arguments] * min(BATCH, self.calls - done)):
                    check(answer)
        else:
            for _ in range(self.calls):
                check(program(*arguments))
        return atlas_gym.Judgement(0.0, traces={"cpu_s": np.array(time.thread_time() - began)})


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = Parser(prog="python -m atlas_gym.experiments.benchmarks.calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000, help="calls per measurement (default 20000)")
    parser.add_argument("--repeats", type=int, default=5, help="measurements, of which the least counts")
    options = parser.parse_args(arguments)
    sizes = options.calls, options.repeats
    with ConfinedEvaluator() as evaluator:
        found = {"bare": [bare_us(case, *sizes) for case in CASES]}
        for way in ("single", "batched", "kept"):
            found[way] = [confined_us(evaluator, case, way, *sizes) for case in CASES]
    show("µs of CPU per call", pd.DataFrame(found, index=list(CASES)).map("{:.1f}".format))
    print(f"a pipe's round trip between two processes of one core: {pipe_us(*sizes):.1f} µs")


def program_for(case: str) -> str:
    """The program that a case calls."""
    return f"def answer(x, y=None):\n    return {CASES[case][1]}\n"


def bare_us(case: str, calls: int, repeats: int) -> float:
    """The same program called in this process."""
    namespace: dict[str, Any] = {}
    exec(program_for(case), namespace)
    function, arguments = namespace["answer"], CASES[case][0]

    def once() -> float:
        began = time.thread_time()
        for _ in range(calls):
            function(*arguments)
        return time.thread_time() - began

    return min(once() for _ in range(repeats)) / calls * 1e6


def confined_us(evaluator: ConfinedEvaluator, case: str, way: str, calls: int, repeats: int) -> float:
    """CPU time of both processes beyond that of an evaluation without calls."""

    def once() -> float:
        spent = []
        for count in (0, calls):
            evaluation = scored(evaluator, program_for(case), CallCost(case=case, calls=count, way=way))
            spent.append(evaluation.cpu_s + float(evaluation.traces["cpu_s"]))
        return spent[1] - spent[0]

    return min(once() for _ in range(repeats)) / calls * 1e6


def pipe_us(rounds: int, repeats: int) -> float:
    """What no exchange of messages between two processes can be without."""
    return min(_ping_pong(rounds) for _ in range(repeats)) / rounds * 1e6


def _ping_pong(rounds: int) -> float:
    core = {max(os.sched_getaffinity(0))}
    to_child, to_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, core)
        for _ in range(rounds):
            os.write(to_parent[1], os.read(to_child[0], 64))
        os._exit(0)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, core)
    began = time.thread_time()
    for _ in range(rounds):
        os.write(to_child[1], bytes(26))
        os.read(to_parent[0], 64)
    spent = time.thread_time() - began
    os.sched_setaffinity(0, allowed)
    usage = os.wait4(child, 0)[2]
    for descriptor in (*to_child, *to_parent):
        os.close(descriptor)
    return spent + usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
