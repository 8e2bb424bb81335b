"""CMA-ES on the numbers that a task's template leaves open.

    python -m atlas_gym.experiments.learners.cma_es --budget 200
    python -m atlas_gym.experiments.learners.cma_es --env-id ATLAS-BinPacking-v0 --seed 3

A candidate is a point in [-1, 1]^n: the program with these numbers, scored once on the training task of the seed. The
best is scored on held-out tasks beside the starting program. Needs `pip install "atlas-gym[optimisers]"`.
"""

import numpy as np

from atlas_gym import make_task
from atlas_gym.bridges.trl import ProgramReward
from atlas_gym.experiments.learners import confirmed, search_parser
from atlas_gym.optional import require
from atlas_gym.tasks.constants import constants_from

cma = require("cma", "optimisers")


def main(arguments: list[str] | None = None) -> tuple[str, float]:
    """Search; print and return the best program and its score on the training task."""
    parser = search_parser("cma_es", "evaluations")
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment")
    parser.add_argument("--workers", type=int, default=2, help="evaluations at a time (default 2)")
    options = parser.parse_args(arguments)
    constants = constants_from(options.constants)
    template = make_task(options.env_id, **constants).template()
    # A step of a quarter of the box, as the library advises; its seed 0 would mean the clock.
    settings = {"bounds": [-1.0, 1.0], "seed": options.seed + 1, "verbose": -9}
    strategy = cma.CMAEvolutionStrategy(np.zeros(template.size), 0.5, settings)
    if options.budget < strategy.popsize:
        parser.error(f"--budget must be at least {strategy.popsize}, a generation")
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
    return confirmed(options, reward.task.starts["named"], best, float(score), **constants)


if __name__ == "__main__":
    main()
