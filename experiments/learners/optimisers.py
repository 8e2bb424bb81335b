"""Black-box optimisers on the numbers of the starting program: random search, CMA-ES, Optuna's TPE.

A candidate is a point: the program with these numbers, scored once on the training task.
"""

from collections.abc import Callable

import numpy as np

from atlas_gym.optional import require
from experiments.learners.controls import open_numbers
from experiments.learners.ledger import Ledger


def learn_random(ledger: Ledger, seed: int) -> None:
    """Uniform points in the box."""
    template, rng = open_numbers(ledger.start, ledger.task.function), np.random.default_rng(seed)
    for point in rng.uniform(-1.0, 1.0, (ledger.budget, template.size)):
        ledger.propose(template.program(point))


def learn_cma(ledger: Ledger, seed: int) -> None:
    """CMA-ES (`cma`) from the middle of the box, where the start is, with step size 0.5.

    The last generation is told only if the budget pays for all of it."""
    cma = require("cma", "optimisers")
    template = open_numbers(ledger.start, ledger.task.function)
    options = {"bounds": [-1.0, 1.0], "seed": seed + 1, "verbose": -9}  # seed 0 means the clock
    strategy = cma.CMAEvolutionStrategy(np.zeros(template.size), 0.5, options)
    while not ledger.spent:
        points = strategy.ask()[: ledger.budget - ledger.candidates]
        losses = [-ledger.propose(template.program(point)) for point in points]
        if len(points) == strategy.popsize:
            strategy.tell(points, losses)


def learn_tpe(ledger: Ledger, seed: int) -> None:
    """Optuna's TPE on the numbers by name and scale."""
    optuna = require("optuna", "optimisers")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    template = open_numbers(ledger.start, ledger.task.function)

    def score(trial) -> float:
        return ledger.propose(template.fill(**{p.name: _suggest(trial, p) for p in template.parameters}))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(score, n_trials=ledger.budget)


def _suggest(trial, parameter) -> float:
    suggest: Callable = trial.suggest_int if parameter.integer else trial.suggest_float
    return suggest(parameter.name, parameter.low, parameter.high, log=parameter.scale == "log")
