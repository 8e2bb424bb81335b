"""Cost of a call of a confined program, in µs of CPU of both processes, beside a bare call.

    python -m atlas_gym.experiments.benchmarks.calls --calls 20000 --repeats 5

Of every figure the least of the repeats is shown: another job on the machine only adds. `batched`: a hundred calls in
one exchange, visible to each other. `kept`: the arguments were sent once before.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import atlas_gym
from atlas_gym.evaluation import ConfinedEvaluator, Limits
from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.calls import Program

SMALL, LARGE = np.arange(20.0), np.zeros((200, 200))
CASES: dict[str, tuple[tuple[Any, ...], str, Callable[[Answer], Any]]] = {
    "number → number": ((1.5,), "x", lambda answer: answer.number()),
    "number, array(20) → array(20)": ((1.5, SMALL), "y", lambda answer: answer.array(20)),
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
                for answer in program.batch([arguments] * min(BATCH, self.calls - done), all_visible=True):
                    check(answer)
        else:
            for _ in range(self.calls):
                check(program(*arguments))
        return atlas_gym.Judgement(0.0, traces={"cpu_s": np.array(time.thread_time() - began)})


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.calls")
    parser.add_argument("--calls", type=int, default=20_000, help="calls per measurement (default 20000)")
    parser.add_argument("--repeats", type=int, default=5, help="measurements, of which the least counts")
    options = parser.parse_args(arguments)
    sizes = options.calls, options.repeats
    ways = ("single", "batched", "kept")
    print(f"{'µs of CPU per call':32}" + "".join(f"{way:>9}" for way in ("bare", *ways)))
    with ConfinedEvaluator() as evaluator:
        for case, (_, returned, _) in CASES.items():
            program = f"def answer(x, y=None):\n    return {returned}\n"
            found = [bare_us(case, program, *sizes)]
            found += [confined_us(evaluator, case, program, way, *sizes) for way in ways]
            print(f"{case:32}" + "".join(f"{value:9.1f}" for value in found))


def bare_us(case: str, program: str, calls: int, repeats: int) -> float:
    """CPU time of the program called in this process."""
    namespace: dict[str, Any] = {}
    exec(program, namespace)
    function, arguments = namespace["answer"], CASES[case][0]

    def once() -> float:
        began = time.thread_time()
        for _ in range(calls):
            function(*arguments)
        return time.thread_time() - began

    return min(once() for _ in range(repeats)) / calls * 1e6


def confined_us(
    evaluator: ConfinedEvaluator, case: str, program: str, way: str, calls: int, repeats: int
) -> float:
    """CPU time of both processes beyond that of an evaluation without calls."""

    def spent(count: int) -> float:
        evaluation = evaluator.evaluate(program, CallCost(case=case, calls=count, way=way))
        if evaluation.score is None:
            raise RuntimeError(f"the benchmark's program failed: {evaluation.detail}")
        return evaluation.cpu_s + float(evaluation.traces["cpu_s"])

    return min(-spent(0) + spent(calls) for _ in range(repeats)) / calls * 1e6


if __name__ == "__main__":
    main()
