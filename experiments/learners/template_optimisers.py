"""Black-box optimisers on a template's coordinates: random search, CMA-ES, Optuna.

Each point is scored on all of the training tasks, which costs as many evaluations; `budget` counts those.
"""

from collections.abc import Callable

import numpy as np

from atlas_gym.optional import require
from experiments.learners.objective import Found, Objective, Setting


def learn_random(setting: Setting, budget: int, seed: int) -> Found:
    """Uniform points in the box; the best of them."""
    rng = np.random.default_rng(seed)
    with Objective(setting) as objective:
        points = rng.uniform(-1.0, 1.0, (_points(setting, budget), objective.template.size))
        scores = [objective.mean(point) for point in points]
    return Found(points[int(np.argmax(scores))], objective.evaluations)


def learn_cma(setting: Setting, budget: int, seed: int) -> Found:
    """CMA-ES (`cma`) from the middle of the box with step size 0.5; its mean at the end."""
    cma = require("cma", "optimisers")
    with Objective(setting) as objective:
        options = {"bounds": [-1.0, 1.0], "seed": seed + 1, "verbose": -9}  # seed 0 means the clock
        strategy = cma.CMAEvolutionStrategy(np.zeros(objective.template.size), 0.5, options)
        points = _points(setting, budget)
        # A generation that would go over the budget is not begun.
        for _ in range(points // strategy.popsize):
            candidates = strategy.ask()
            strategy.tell(candidates, [-objective.mean(candidate) for candidate in candidates])
        return Found(np.asarray(strategy.result.xfavorite), objective.evaluations)


def learn_optuna(setting: Setting, budget: int, seed: int) -> Found:
    """Optuna's TPE on the parameters by name and scale; the best trial."""
    optuna = require("optuna", "optimisers")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with Objective(setting) as objective:
        template = objective.template

        def trial_score(trial) -> float:
            values = {p.name: _suggest(trial, p) for p in template.parameters}
            return objective.mean(template.coordinates(values))

        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(trial_score, n_trials=_points(setting, budget))
        return Found(template.coordinates(study.best_params), objective.evaluations)


def _suggest(trial, parameter) -> float:
    suggest: Callable = trial.suggest_int if parameter.integer else trial.suggest_float
    return suggest(parameter.name, parameter.low, parameter.high, log=parameter.scale == "log")


def _points(setting: Setting, budget: int) -> int:
    if budget < setting.tasks:
        raise ValueError(f"a budget of {budget} does not pay for one point on {setting.tasks} tasks")
    return budget // setting.tasks
