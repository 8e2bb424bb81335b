"""Learners on the ATLAS environments, one file each, to be copied and changed; none imports another.

`cma_es`, `tpe` and `ppo` choose the numbers of a template; `grpo` and `evodpo` tune a language model that rewrites
lines; `openevolve` and `shinka` are other projects' searches with their programs scored by our confined evaluator.
What they have in common is here: options of a search, and how its best program is confirmed.
"""

import argparse
from typing import Any

import numpy as np

from atlas_gym.bridges.trl import ProgramReward


def search_parser(name: str, budget: str) -> argparse.ArgumentParser:
    """The options of a search on one training task; `budget`: what is counted."""
    parser = argparse.ArgumentParser(prog=f"python -m atlas_gym.experiments.learners.{name}")
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--budget", type=int, default=200, help=f"{budget} (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the search and of the training task")
    parser.add_argument("--held-out", type=int, default=16, help="held-out tasks (default 16)")
    return parser


def held_out_means(env_id: str, programs: list[str], tasks: int, **constants: Any) -> list[float]:
    """Mean score of each program on so many held-out tasks."""
    reward = ProgramReward(env_id, split="held_out", workers=2, **constants)
    means = [float(np.mean(reward([program] * tasks, seed=range(tasks)))) for program in programs]
    reward.close()
    return means


def confirmed(
    options: argparse.Namespace, start: str, best: str, score: float, **constants: Any
) -> tuple[str, float]:
    """Print the best program with its score on the training task and both programs' on held-out ones; returns it."""
    before, after = held_out_means(options.env_id, [start, best], options.held_out, **constants)
    print(f"{best}\ntraining task {score:.4f}; held out {after:.4f}, the start {before:.4f}")
    return best, score
