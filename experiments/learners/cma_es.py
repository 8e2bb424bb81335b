"""CMA-ES on the numbers that a task's template leaves open.

    python -m atlas_gym.experiments.learners.cma_es --budget 200
    python -m atlas_gym.experiments.learners.cma_es --env-id ATLAS-BinPacking-v0 --seed 3

A candidate is a point in [-1, 1]^n: the program with these numbers, scored once on the training task of the seed. The
best is scored on held-out tasks beside the starting program. Needs `pip install "atlas-gym[optimisers]"`.
"""

import argparse

import cma
import numpy as np

from atlas_gym import make_task
from atlas_gym.bridges.trl import ProgramReward
from atlas_gym.tasks.constants import constants_from


def main(arguments: list[str] | None = None) -> tuple[str, float]:
    """Search; print and return the best program and its score on the training task."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.learners.cma_es")
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment")
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--budget", type=int, default=200, help="evaluations (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the search and of the training task")
    parser.add_argument("--held-out", type=int, default=16, help="held-out tasks (default 16)")
    parser.add_argument("--workers", type=int, default=2, help="evaluations at a time (default 2)")
    options = parser.parse_args(arguments)
    constants = constants_from(options.constants)
    template = make_task(options.env_id, **constants).template()
    # A step of a quarter of the box, as the library advises; its seed 0 would mean the clock.
    settings = {"bounds": [-1.0, 1.0], "seed": options.seed + 1, "verbose": -9}
    strategy = cma.CMAEvolutionStrategy(np.zeros(template.size), 0.5, settings)
    best, score = "", -np.inf
    reward = ProgramReward(options.env_id, workers=options.workers, **constants)
    for _ in range(options.budget // strategy.popsize):
        points = strategy.ask()
        programs = [template.program(point) for point in points]
        scores = reward(programs, seed=[options.seed] * len(programs))
        strategy.tell(points, [-value for value in scores])
        if max(scores) > score:
            score, best = max(scores), programs[int(np.argmax(scores))]
    reward.close()

    held_out = ProgramReward(options.env_id, split="held_out", workers=options.workers, **constants)
    tasks = range(options.held_out)
    ours, start = (
        np.mean(held_out([p] * len(tasks), seed=tasks)) for p in (best, held_out.task.starts["named"])
    )
    held_out.close()
    print(f"{best}\ntraining task {score:.4f}; held out {ours:.4f}, the start {start:.4f}")
    return best, float(score)


if __name__ == "__main__":
    main()
