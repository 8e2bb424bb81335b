"""CPU ms of an evaluation: as a bare call, in a confined worker, and in OpenEvolve's evaluator where it is installed.

    python -m atlas_gym.experiments.benchmarks.evaluation --repeats 7

All score the same program on the same bandit (five replicas, 2000 steps) on one core. OpenEvolve's evaluator runs
programs in its own process, unconfined; its evaluation file calls the very simulation that the bare call does. What a
confined worker's cold start takes, `atlas doctor` says.
"""

import argparse
import asyncio
import importlib.util
import logging
import os
import tempfile
from pathlib import Path
from typing import cast

from atlas_gym import make_task
from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.benchmarks import compare, confined_seconds, seconds_of
from atlas_gym.tasks.bandit.bare import play_bare
from atlas_gym.tasks.bandit.task import BanditTask

EVALUATION_FILE = """
from atlas_gym import make_task
from atlas_gym.tasks.bandit.bare import play_bare

TASK = make_task("ATLAS-Bandit-v0", seed=0)


def evaluate(path):
    with open(path) as file:
        return {"combined_score": play_bare(file.read(), TASK)}
"""


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.evaluation")
    parser.add_argument("--repeats", type=int, default=7, help="rounds in which every contender runs once")
    options = parser.parse_args(arguments)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    task = make_task("ATLAS-Bandit-v0", seed=0)
    program = task.starts["named"]
    with tempfile.TemporaryDirectory() as folder, ConfinedEvaluator() as evaluator:
        contenders = {
            "bare call": lambda: seconds_of(lambda: play_bare(program, cast(BanditTask, task))),
            "ours, confined": lambda: confined_seconds(evaluator, program, task),
        }
        if importlib.util.find_spec("openevolve"):
            from openevolve.config import EvaluatorConfig
            from openevolve.evaluator import Evaluator

            logging.disable(logging.WARNING)
            file = Path(folder, "evaluation_file.py")
            file.write_text(EVALUATION_FILE)
            theirs = Evaluator(EvaluatorConfig(cascade_evaluation=False), str(file))
            contenders["OpenEvolve, unconfined"] = lambda: seconds_of(
                lambda: asyncio.run(theirs.evaluate_program(program))
            )
        compare("CPU ms of an evaluation of the bandit", contenders, options.repeats)


if __name__ == "__main__":
    main()
