"""Evaluations per second through Ray and through the local pool, side by side.

    python -m experiments.benchmarks.pools --workers 2 --repeats 5

Both pools hold the same number of confined evaluators on this machine and score the paper's program (sliding-window
LinUCB, five replicas, 2000 steps) with the same scores. They take turns, batch by batch, and the ratio of every
round is formed before the median. The Ray cluster is a local one, started for the benchmark; what a network adds is
not in the figures. Time to the first result includes starting the pool (for Ray: the cluster).
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

from rich.console import Console
from rich.table import Table

from atlas_gym import make_task
from atlas_gym.evaluation import EvaluatorPool, Pool, Task
from atlas_gym.evaluation.ray import RayEvaluatorPool

LOCAL, RAY = "local pool", "Ray, local cluster"


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks.pools", description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="evaluators of each pool")
    parser.add_argument("--repeats", type=int, default=5, help="rounds in which either pool runs once")
    parser.add_argument("--batch", type=int, default=40, help="evaluations per round and pool")
    options = parser.parse_args(arguments)
    program, task = make_task("ATLAS-Bandit-v0").starts["named"], make_task("ATLAS-Bandit-v0", seed=0)
    # A different comment makes a different text, so that no layer could serve one result twice.
    programs = [f"{program}\n# {i}" for i in range(options.batch)]
    with ExitStack() as stack:
        pools: dict[str, Pool] = {}
        first: dict[str, float] = {}
        for name, make in ((LOCAL, EvaluatorPool), (RAY, RayEvaluatorPool)):
            started = time.perf_counter()
            pools[name] = stack.enter_context(make(options.workers))
            pools[name].evaluate(program, task)
            first[name] = time.perf_counter() - started
        seconds = take_turns(pools, programs, task, options.repeats)
    print_table(seconds, first, options.batch, options.workers)
    return 0


def take_turns(
    pools: dict[str, Pool], programs: Sequence[str], task: Task, repeats: int
) -> dict[str, list[float]]:
    """Seconds of every pool in every round; the first round warms up and is not counted.

    Raises:
        RuntimeError: the pools do not find the same scores.
    """
    seconds: dict[str, list[float]] = {name: [] for name in pools}
    for repeat in range(repeats + 1):
        found = []
        for name, pool in pools.items():
            started = time.perf_counter()
            found.append([evaluation.score for evaluation in pool.map(programs, task)])
            if repeat:
                seconds[name].append(time.perf_counter() - started)
        if None in found[0] or found[0] != found[1]:
            raise RuntimeError("the pools disagree")
    return seconds


def print_table(seconds: dict[str, list[float]], first: dict[str, float], batch: int, workers: int) -> None:
    """Throughput, and its ratio to the local pool's of the same round."""
    table = Table(
        "evaluator", "evaluations/s, median", "relative to the local pool (range)", "first result, s"
    )
    for name, values in seconds.items():
        ratios = [local / value for local, value in zip(seconds[LOCAL], values, strict=True)]
        table.add_row(
            name, f"{batch / median(values):.1f}",
            f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", f"{first[name]:.1f}",
        )  # fmt: skip
    console = Console(width=110)
    console.print(table)
    load = f"; load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    console.print(f"{workers} workers each, {os.cpu_count()} cores{load}")


if __name__ == "__main__":
    sys.exit(main())
