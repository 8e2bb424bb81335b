"""Optuna's TPE, or random numbers, on the numbers that a task's template leaves open.

    python -m atlas_gym.experiments.learners.tpe --budget 200
    python -m atlas_gym.experiments.learners.tpe --sampler random

The numbers keep their names and scales; a candidate is the program with these numbers, scored once on the training task
of the seed. Random numbers are the control that any learner of programs has to beat at equal numbers of evaluations.
Needs `pip install "atlas-gym[optimisers]"`.
"""

import argparse
from typing import Any

import numpy as np
import optuna

from atlas_gym import make_task
from atlas_gym.bridges.trl import ProgramReward
from atlas_gym.tasks.constants import constants_from


def main(arguments: list[str] | None = None) -> tuple[str, float]:
    """Search; print and return the best program and its score on the training task."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.learners.tpe")
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment")
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--sampler", choices=("tpe", "random"), default="tpe")
    parser.add_argument("--budget", type=int, default=200, help="evaluations (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the search and of the training task")
    parser.add_argument("--held-out", type=int, default=16, help="held-out tasks (default 16)")
    options = parser.parse_args(arguments)
    constants = constants_from(options.constants)
    template = make_task(options.env_id, **constants).template()
    reward = ProgramReward(options.env_id, **constants)
    kind = optuna.samplers.TPESampler if options.sampler == "tpe" else optuna.samplers.RandomSampler
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def program(trial: optuna.trial.BaseTrial) -> str:
        numbers = {}
        for p in template.parameters:
            suggest: Any = trial.suggest_int if p.integer else trial.suggest_float
            numbers[p.name] = suggest(p.name, p.low, p.high, log=p.scale == "log")
        return template.fill(**numbers)

    study = optuna.create_study(direction="maximize", sampler=kind(seed=options.seed))
    study.optimize(lambda trial: reward([program(trial)], seed=[options.seed])[0], n_trials=options.budget)
    reward.close()
    best = program(optuna.trial.FixedTrial(study.best_params))

    held_out = ProgramReward(options.env_id, split="held_out", workers=2, **constants)
    tasks = range(options.held_out)
    ours, start = (
        np.mean(held_out([p] * len(tasks), seed=tasks)) for p in (best, held_out.task.starts["named"])
    )
    held_out.close()
    print(f"{best}\ntraining task {study.best_value:.4f}; held out {ours:.4f}, the start {start:.4f}")
    return best, study.best_value


if __name__ == "__main__":
    main()
