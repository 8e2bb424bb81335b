"""A sweep file as W&B writes it, read strictly: what would be ignored here is refused.

The search itself is Optuna's; this file says what W&B's words mean to it, and writes a run's command and environment
the way W&B's agent does.
"""

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from atlas_gym.trainers.store.plain import SettingsError, build, nearest, read_mapping

_ENVIRONMENT = re.compile(r"\$\{envvar:([A-Z0-9_]*)\}")
_KINDS = ("uniform", "int_uniform", "q_uniform", "log_uniform_values")
_KEYS = ("value", "values", "min", "max", "q", "distribution")
_LARGEST_GRID = 10_000
"""Runs; that many take weeks."""
_FEWER = "name fewer values, or search with method: random"


@dataclass(frozen=True)
class Metric:
    """What runs are judged by."""

    name: str
    """One of `experiments.loggers.metrics`."""
    goal: Literal["minimize", "maximize"] = "minimize"
    """Whether smaller or larger is better."""


@dataclass(frozen=True)
class Hyperband:
    """Early termination: after some rounds, eta times and eta² times as many … the best 1/eta of the runs go on."""

    type: Literal["hyperband"]
    """W&B has no other."""
    min_iter: int | None = None
    """Rounds before the first judgement."""
    max_iter: int | None = None
    """Where that is not said: rounds of the longest run,"""
    s: int = 1
    """and judgements before its end."""
    eta: int = 3
    """One in eta goes on."""

    def __post_init__(self) -> None:
        if self.eta < 2:
            raise ValueError(f"eta must be a whole number from 2 on, not {self.eta}")
        if self.min_iter is self.max_iter is None:
            raise ValueError("early_terminate needs min_iter, or max_iter and s")
        if self.first < 1:
            raise ValueError("no run is judged before its first round: raise min_iter, or max_iter")

    @property
    def first(self) -> int:
        """Rounds before the first judgement."""
        return self.min_iter or (self.max_iter or 0) // self.eta**self.s


@dataclass(frozen=True)
class Sweep:
    """A search over configurations; the fields are the keys of W&B's file."""

    method: Literal["grid", "random", "bayes"]
    """How configurations are chosen."""
    metric: Metric
    """What the best one is best in."""
    parameters: Mapping[str, Any]
    """What varies, in W&B's words."""
    name: str = ""
    """What its folder and its runs are called."""
    description: str = ""
    """For whoever reads the file."""
    project: str = ""
    """For W&B's server, as is the next."""
    entity: str = ""
    """Whose project."""
    program: str = ""
    """Stands for `${program}` in the command."""
    command: tuple[str, ...] = ("${env}", "${interpreter}", "${program}", "${args}")
    """The command of a run, with W&B's macros."""
    run_cap: int | None = None
    """Number of runs after which the sweep ends; None for no limit."""
    early_terminate: Hyperband | None = None
    """When a run is cut short; None for never."""

    def __post_init__(self) -> None:
        if not self.distributions:
            raise ValueError("parameters are missing")
        if self.run_cap is not None and self.run_cap < 1:
            raise ValueError(f"run_cap must be a whole number of runs, not {self.run_cap}")
        if self.method == "grid":
            self.cells()  # refuses what has no end

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """An Optuna distribution by setting; the choices of a categorical one are JSON texts."""
        return dict(_parameters(self.parameters))

    def cells(self) -> list[dict[str, Any]]:
        """Every combination of a grid, in Optuna's terms."""
        values = [_values(name, found) for name, found in self.distributions.items()]
        if (runs := math.prod(map(len, values))) > _LARGEST_GRID:
            raise ValueError(
                f"a grid of {runs:,} runs is too large, {_LARGEST_GRID:,} are the most: {_FEWER}"
            )
        return [dict(zip(self.distributions, cell, strict=True)) for cell in product(*values)]


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file.

    Raises:
        SettingsError: it cannot be read, or holds what this runner would have to ignore; the message names the key.
    """
    values = read_mapping(path, "the sweep")
    name = str(values.get("name", path.stem)).replace("/", "-")
    return build(Sweep, {**values, "name": name}, f"{path.name}: ")


def _parameters(entries: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, BaseDistribution]]:
    """The parameters by setting; `phase: {parameters: {beta: …}}` is `phase.beta`."""
    if not isinstance(entries, Mapping):
        raise SettingsError(f"{where}parameters must be a mapping of settings, not {entries!r}")
    for name, entry in entries.items():
        if isinstance(entry, Mapping) and "parameters" in entry:
            yield from _parameters(entry["parameters"], f"{where}{name}.")
        else:
            yield f"{where}{name}", parse_parameter(f"{where}{name}", entry)


def parse_parameter(name: str, entry: Any) -> BaseDistribution:
    """A parameter as an Optuna distribution.

    Raises:
        SettingsError: it is none, or of a distribution that is not supported here.
    """
    if not isinstance(entry, Mapping):
        raise SettingsError(f"parameters.{name} must be a mapping such as {{value: {entry!r}}}")
    if "probabilities" in entry:
        raise SettingsError(
            f"parameters.{name}: probabilities are not supported here; repeat a value in `values`"
        )
    for key in entry:
        if key not in _KEYS:
            raise SettingsError(f"parameters.{name}: unknown key {key}{nearest(str(key), _KEYS)}")
    try:
        if "value" in entry or "values" in entry:
            values = [entry["value"]] if "value" in entry else entry["values"]
            if not isinstance(values, list):
                raise ValueError(f"values must be a list, not {values!r}")
            return CategoricalDistribution(tuple(json.dumps(value) for value in values))
        return _number(entry)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise SettingsError(f"parameters.{name}: {error}") from error


def _number(entry: Mapping[str, Any]) -> BaseDistribution:
    if "min" not in entry or "max" not in entry:
        raise ValueError("give `value`, `values`, or `min` and `max`")
    low, high = entry["min"], entry["max"]
    whole = isinstance(low, int) and isinstance(high, int)
    kind = entry.get("distribution", "int_uniform" if whole else "uniform")
    if kind not in _KINDS:
        raise ValueError(f"distribution {kind!r} is not supported here; use one of {', '.join(_KINDS)}")
    if kind == "int_uniform":
        return IntDistribution(int(low), int(high))
    if kind == "q_uniform":
        # W&B counts steps from 0, Optuna from the lower bound.
        q = entry.get("q", 1)
        slack = 1e-9  # 1.0 / 0.1 is a little less than ten tenths
        low, high = (round(n * q, 12) for n in (math.ceil(low / q - slack), math.floor(high / q + slack)))
        return (IntDistribution if isinstance(q, int) else FloatDistribution)(low, high, step=q)
    return FloatDistribution(low, high, log=kind == "log_uniform_values")


def _values(name: str, found: Any) -> list[Any]:
    if hasattr(found, "choices"):
        return list(found.choices)
    if found.step is None:
        raise SettingsError(
            f"parameters.{name}: a grid needs `values`, or numbers with a step; this one is continuous"
        )
    steps = round((found.high - found.low) / found.step) + 1
    if steps > _LARGEST_GRID:
        raise SettingsError(f"parameters.{name}: a grid of {steps:,} values is too large: {_FEWER}")
    return [round(found.low + i * found.step, 12) for i in range(steps)]


def expand(sweep: Sweep, parameters: Mapping[str, Any]) -> list[str]:
    """The command with its macros filled in.

    Raises:
        SettingsError: it has a macro that is not known here.
    """
    pairs = [f"{key}={value}" for key, value in parameters.items()]
    known = {
        "env": ["/usr/bin/env"],
        "interpreter": [sys.executable],
        "program": [sweep.program],
        "args": [f"--{pair}" for pair in pairs],
        "args_no_hyphens": pairs,
        "args_json": [json.dumps(dict(parameters))],
    }
    words: list[str] = []
    for chunk in sweep.command:
        # As W&B: what is not set stands for its own name.
        chunk = _ENVIRONMENT.sub(lambda match: os.environ.get(match[1], match[1]), chunk)
        macro = re.fullmatch(r"\$\{(\w+)\}", chunk)
        if macro and macro[1] not in known:
            raise SettingsError(
                f"the macro {chunk} is not known here; known: {', '.join(known)}, envvar:NAME"
            )
        words += known[macro[1]] if macro else [chunk]
    return words


def environment(
    sweep: str, run_id: str, folder: Path, parameters: Mapping[str, Any], parameter_file: Path
) -> dict[str, str]:
    """The environment of a run.

    Writes the file from which W&B itself takes a sweep's parameters (`WANDB_SWEEP_PARAM_PATH`), so that the run's
    record holds them as it would under an agent. `WANDB_SWEEP_ID` is not set: no server knows this sweep, and a
    record that names it could not be synchronised; the sweep's name is the runs' group. The programs of this Python's
    environment, `atlas` among them, are found first.
    """
    entries = {"wandb_version": 1, **{name: {"value": value} for name, value in parameters.items()}}
    parameter_file.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    return {
        "WANDB_RUN_GROUP": sweep,
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "WANDB_RUN_ID": run_id,
        "WANDB_SWEEP_PARAM_PATH": str(parameter_file.resolve()),
        "ATLAS_RUN_FOLDER": str(folder.resolve()),
    }
