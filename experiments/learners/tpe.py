"""Optuna's TPE, or random numbers, on the numbers that a task's template leaves open.

    python -m atlas_gym.experiments.learners.tpe --budget 200
    python -m atlas_gym.experiments.learners.tpe --sampler random

The numbers keep their names and scales; a candidate is the program with these numbers, scored once on the training task
of the seed. Random numbers are the control that any learner of programs has to beat at equal numbers of evaluations.
Needs `pip install "atlas-gym[optimisers]"`.
"""

from typing import Any

from atlas_gym import make_task
from atlas_gym.bridges.trl import ProgramReward
from atlas_gym.experiments.learners import confirmed, search_parser
from atlas_gym.optional import require
from atlas_gym.tasks.constants import constants_from

optuna = require("optuna", "optimisers")


def main(arguments: list[str] | None = None) -> tuple[str, float]:
    """Search; print and return the best program and its score on the training task."""
    parser = search_parser("tpe", "evaluations")
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment")
    parser.add_argument("--sampler", choices=("tpe", "random"), default="tpe")
    options = parser.parse_args(arguments)
    constants = constants_from(options.constants)
    template = make_task(options.env_id, **constants).template()
    reward = ProgramReward(options.env_id, **constants)
    kind = optuna.samplers.TPESampler if options.sampler == "tpe" else optuna.samplers.RandomSampler
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def program(trial: Any) -> str:
        numbers = {}
        for p in template.parameters:
            suggest: Any = trial.suggest_int if p.integer else trial.suggest_float
            numbers[p.name] = suggest(p.name, p.low, p.high, log=p.scale == "log")
        return template.fill(**numbers)

    study = optuna.create_study(direction="maximize", sampler=kind(seed=options.seed))
    study.optimize(lambda trial: reward([program(trial)], seed=[options.seed])[0], n_trials=options.budget)
    reward.close()
    best = program(optuna.trial.FixedTrial(study.best_params))
    return confirmed(options, reward.task.starts["named"], best, study.best_value, **constants)


if __name__ == "__main__":
    main()
