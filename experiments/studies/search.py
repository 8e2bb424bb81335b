"""Which configuration comes next: a pure function of the sweep and its runs so far.

Nothing but the stored runs decides, so a sweep that was killed goes on as if it had not been.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from atlas_gym.seeding import stream, torch_seed
from experiments.studies.parameters import Choice, Parameter, SweepError
from experiments.studies.sweep_file import Sweep

_RANDOM_FIRST = 4
"""Runs that bayes draws at random before it has anything to model."""


@dataclass(frozen=True)
class Trial:
    """A run as the search sees it."""

    parameters: Mapping[str, Any]
    """Its configuration."""
    state: Literal["running", "ended", "failed"]
    """Runs cut short have ended: their value is the best they came to."""
    value: float | None
    """Its metric; None if there is none."""


def next_parameters(sweep: Sweep, trials: Sequence[Trial], seed: int) -> dict[str, Any] | None:
    """The next configuration, None if a grid is exhausted.

    Args:
        sweep: the sweep.
        trials: every run begun so far, in order.
        seed: of the sweep.
    """
    if sweep.method == "grid":
        return _grid(sweep.parameters, len(trials))
    if sweep.method == "random" or all(trial.value is None for trial in trials):
        rng = stream(seed, "sweep", len(trials))
        return {name: parameter.sample(rng) for name, parameter in sweep.parameters.items()}
    return _bayes(sweep, trials, torch_seed(seed, "sweep", len(trials)) % 2**32)


def _grid(parameters: Mapping[str, Parameter], index: int) -> dict[str, Any] | None:
    cells = itertools.product(*(parameter.grid() for parameter in parameters.values()))
    cell = next(itertools.islice(cells, index, None), None)
    return None if cell is None else dict(zip(parameters, cell, strict=True))


def _bayes(sweep: Sweep, trials: Sequence[Trial], seed: int) -> dict[str, Any]:
    # Takes a second to import, and nothing else needs it.
    try:
        import optuna
        from optuna.trial import TrialState, create_trial
    except ImportError as error:
        raise SweepError('method: bayes needs Optuna: pip install "atlas-gym[optimisers]"') from error

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: _distribution(parameter) for name, parameter in sweep.parameters.items()}
    states = {"running": TrialState.RUNNING, "ended": TrialState.COMPLETE, "failed": TrialState.FAIL}
    sampler = optuna.samplers.GPSampler(
        seed=seed, n_startup_trials=_RANDOM_FIRST, warn_independent_sampling=False
    )
    study = optuna.create_study(direction="maximize" if sweep.maximize else "minimize", sampler=sampler)
    for trial in trials:
        state = "failed" if trial.state == "ended" and trial.value is None else trial.state
        coded = {name: _encoded(sweep.parameters[name], value) for name, value in trial.parameters.items()}
        study.add_trial(create_trial(
            params=coded, distributions=space, state=states[state], value=trial.value if state == "ended" else None,
        ))  # fmt: skip
    drawn = study.ask(space).params
    return {name: _decoded(sweep.parameters[name], value) for name, value in drawn.items()}


def _distribution(parameter: Parameter) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(parameter, Choice):
        # By position: a value may be a list or a mapping, which Optuna does not take.
        return CategoricalDistribution(tuple(range(len(parameter.values))))
    if parameter.integer and parameter.step is None and not parameter.log:
        return IntDistribution(int(parameter.low), int(parameter.high))
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log)


def _encoded(parameter: Parameter, value: Any) -> Any:
    return parameter.values.index(value) if isinstance(parameter, Choice) else value


def _decoded(parameter: Parameter, value: Any) -> Any:
    return parameter.values[value] if isinstance(parameter, Choice) else parameter.rounded(value)
