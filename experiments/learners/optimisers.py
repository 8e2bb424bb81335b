"""Black-box optimisers on the numbers that a task's template leaves open: random search, CMA-ES, Optuna's TPE.

A candidate is a point: the program with these numbers, scored once on the training task. Each goes on until its budget
ends it.
"""

from collections.abc import Callable

import numpy as np

from atlas_gym.experiments.learners.changes import Change
from atlas_gym.experiments.learners.ledger import Ledger, Trial
from atlas_gym.optional import require

_BOX, _STEP = [-1.0, 1.0], 0.5


def learn_random(ledger: Ledger, seed: int) -> None:
    """Uniform points in the box."""
    template, rng = ledger.task.template(), np.random.default_rng(seed)
    while True:
        ledger.propose(template.program(rng.uniform(-1.0, 1.0, template.size)))


def learn_cma(ledger: Ledger, seed: int) -> None:
    """CMA-ES (`cma`) from the middle of the box."""
    cma, template = require("cma", "optimisers"), ledger.task.template()
    options = {"bounds": _BOX, "seed": seed + 1, "verbose": -9}  # seed 0 means the clock
    strategy = cma.CMAEvolutionStrategy(np.zeros(template.size), _STEP, options)
    while True:
        points = strategy.ask()
        strategy.tell(points, [-ledger.propose(template.program(point)) for point in points])


def cma_changes(trial: Trial) -> dict[str, Change]:
    """How the settings of CMA-ES differ from the library's."""
    return {
        "bounds": Change(_BOX, [None, None], "the template's numbers, scaled"),
        "sigma0": Change(_STEP, None, "the library asks for one: a quarter of the box, as it advises"),
    }


def learn_tpe(ledger: Ledger, seed: int) -> None:
    """Optuna's TPE on the numbers by name and scale."""
    optuna, template = require("optuna", "optimisers"), ledger.task.template()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the trial that finds the budget spent fails

    def score(trial) -> float:
        return ledger.propose(template.fill(**{p.name: _suggest(trial, p) for p in template.parameters}))

    optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)).optimize(score)


def _suggest(trial, parameter) -> float:
    suggest: Callable = trial.suggest_int if parameter.integer else trial.suggest_float
    return suggest(parameter.name, parameter.low, parameter.high, log=parameter.scale == "log")
