"""Benchmarks, each beside what one would use instead: `evaluation`, `calls`, `burgers`, `generation`, `phase`,
`gpu`.

Contenders take turns, so that a busy machine disturbs all alike, and ratios are formed within a round before the
median. Time on a CPU is CPU time, in which other jobs on the machine take less part; on a GPU it is the clock's.
"""

import time
from collections.abc import Callable, Mapping
from statistics import median

from atlas_gym.evaluation import ConfinedEvaluator, Task


def seconds_of(work: Callable[[], object], device: str = "cpu") -> float:
    """Seconds of some work: CPU time of this process, or by the clock on a GPU."""
    clock, wait = time.process_time, lambda: None
    if device != "cpu":
        import torch

        clock, wait = time.perf_counter, torch.cuda.synchronize
    wait()
    began = clock()
    work()
    wait()
    return clock() - began


def confined_seconds(evaluator: ConfinedEvaluator, program: str, task: Task) -> float:
    """CPU seconds of a whole evaluation, of this process and the worker; RuntimeError if the program fails."""
    began = time.process_time()
    evaluation = evaluator.evaluate(program, task)
    if evaluation.score is None:
        raise RuntimeError(f"the benchmark's program failed: {evaluation.status}: {evaluation.detail}")
    return time.process_time() - began + evaluation.cpu_s


def compare(
    title: str, contenders: Mapping[str, Callable[[], float]], repeats: int, unit: float = 1e-3
) -> None:
    """Print each contender's median seconds, and their ratio to the first contender's: median and range.

    Contenders return their seconds. A first round, which warms up, is left out. `unit`: seconds of the unit that is
    printed, by default ms.
    """
    rounds = [{name: run() for name, run in contenders.items()} for _ in range(repeats + 1)][1:]
    first = next(iter(contenders))
    print(f"\n{title}")
    for name in contenders:
        ratios = [each[name] / each[first] for each in rounds]
        value = median(each[name] for each in rounds) / unit
        spread = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) of {first}"
        print(f"  {name:44}{value:12.3f}   {spread}")
