"""CPU seconds of an evaluation: in a confined worker, as a bare call, and in OpenEvolve's evaluator.

    python -m atlas_gym.experiments.benchmarks.evaluation --repeats 7

All score the same program on the same bandit (five replicas, 2000 steps) on one core and must find the same score:
the paper's program, which reads the history as arrays, and one that treats it as the list of (x, arm, reward) that
the paper's signature suggests, compared with a loop that appends to a list. Contenders take turns, and the ratio of
every round is formed before the median. Counted is the CPU time of all processes: other jobs on the machine take
less part in it. OpenEvolve (its evaluator runs programs in its own process, unconfined) is installed from PyPI into a
folder that is thrown away afterwards; its evaluation file calls the very simulation that the bare contender calls.
What a confined worker's cold start takes, `atlas doctor` says.
"""

import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from atlas_gym import make_task
from atlas_gym.arguments import Parser
from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.benchmarks.side_by_side import install_into, scored, show, spread, take_turns
from atlas_gym.tasks.bandit.bare import play_bare
from atlas_gym.tasks.bandit.driver import seed_globals
from atlas_gym.tasks.bandit.task import BanditTask

OPENEVOLVE = ("openevolve==0.4.0", "dacite==1.9.2", "openai==3.52.0", "jiter==0.19.0")

EVALUATION_FILE = """
from atlas_gym import make_task
from atlas_gym.tasks.bandit.bare import play_bare

TASK = make_task("ATLAS-Bandit-v0", seed=0)


def evaluate(path):
    with open(path) as file:
        return {"combined_score": play_bare(file.read(), TASK)}
"""

AS_A_LIST = """\
import numpy as np


def policy(context, history, t):
    d = context.shape[1]
    recent = history[-50:]
    X = np.array([x for x, _, _ in recent]).reshape(-1, d)
    y = np.array([reward for _, _, reward in recent])
    A = np.eye(d) + X.T @ X
    A_inv = np.linalg.inv(A)
    bonus = np.sqrt(np.sum(context @ A_inv * context, axis=1))
    return int(np.argmax(context @ A_inv @ X.T @ y + bonus))
"""

Contender = Callable[[], tuple[float, float]]
"""Evaluates once; the score, and the CPU seconds of other processes than this one."""


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = Parser(prog="python -m atlas_gym.experiments.benchmarks.evaluation", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="rounds in which every contender runs once")
    parser.add_argument("--without-openevolve", action="store_true", help="leave OpenEvolve out")
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    program, task = make_task("ATLAS-Bandit-v0").starts["named"], BanditTask()
    with tempfile.TemporaryDirectory() as folder, ConfinedEvaluator() as evaluator:
        contenders: dict[str, Contender] = {
            "bare call": lambda: (play_bare(program, task), 0.0),
            "ours, confined": lambda: _confined(evaluator, program, task),
        }
        openevolve = None if options.without_openevolve else openevolve_contender(Path(folder), program)
        if openevolve is not None:
            contenders["OpenEvolve 0.4, unconfined"] = openevolve
        print_table("history as arrays", cpu_seconds(contenders, options.repeats))
        contenders = {
            "bare call, a list": lambda: (play_with_lists(AS_A_LIST, task), 0.0),
            "ours, confined": lambda: _confined(evaluator, AS_A_LIST, task),
        }
        print_table("history as a list", cpu_seconds(contenders, options.repeats))


def _confined(evaluator: ConfinedEvaluator, program: str, task: BanditTask) -> tuple[float, float]:
    evaluation = scored(evaluator, program, task)
    return evaluation.score or 0.0, evaluation.cpu_s


def play_with_lists(program: str, task: BanditTask) -> float:
    """Score a trusted program in this process; its history is a list, and nothing is checked."""
    seed_globals(task.program_seed)
    namespaces: list[dict[str, Any]] = [{} for _ in range(task.replicas)]
    for namespace in namespaces:
        exec(program, namespace)
    policies = [namespace[task.function] for namespace in namespaces]
    histories: list[list[Any]] = [[] for _ in namespaces]
    drawn, choices = task.drawn(), np.empty((task.horizon, task.replicas), dtype=np.intp)
    for t in range(task.horizon):
        context, reward = drawn.contexts[t], drawn.rewards[t]
        for r, (policy, history) in enumerate(zip(policies, histories, strict=True)):
            choices[t, r] = arm = policy(context[r], history, t)
            history.append((context[r, arm], arm, float(reward[r, arm])))
    return task.judgement(choices).score


def openevolve_contender(folder: Path, program: str) -> Contender | None:
    """OpenEvolve's own evaluator on the same simulation; None, with the reason printed, if it cannot be had."""
    if not install_into(folder, "OpenEvolve", OPENEVOLVE):
        return None
    sys.path.append(str(folder))
    logging.disable(logging.WARNING)
    from openevolve.config import EvaluatorConfig
    from openevolve.evaluator import Evaluator

    file = folder / "evaluation_file.py"
    file.write_text(EVALUATION_FILE)
    evaluator = Evaluator(EvaluatorConfig(cascade_evaluation=False), str(file))
    return lambda: (asyncio.run(evaluator.evaluate_program(program))["combined_score"], 0.0)


def cpu_seconds(contenders: dict[str, Contender], repeats: int) -> pd.DataFrame:
    """CPU seconds of every contender in every round.

    Raises:
        RuntimeError: the contenders do not find the same score.
    """
    scores = set()

    def timed(contender: Contender) -> float:
        started = time.process_time()
        score, elsewhere = contender()
        scores.add(score)
        return time.process_time() - started + elsewhere

    found = take_turns({name: partial(timed, contender) for name, contender in contenders.items()}, repeats)
    if len(scores) != 1:
        raise RuntimeError(f"the contenders disagree: {scores}")
    return found


def print_table(title: str, seconds: pd.DataFrame) -> None:
    """Speeds relative to the first contender, a bare call, of the same round."""
    speeds = (1 / seconds).mul(seconds.iloc[:, 0], axis=0)
    show(title, pd.DataFrame({
        "CPU ms, median": (1000 * seconds.median()).map("{:.0f}".format),
        "per second": (1 / seconds.median()).map("{:.1f}".format),
        "speed of a bare call": speeds.apply(spread),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
