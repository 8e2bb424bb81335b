"""A sweep file as W&B writes it, read strictly: what would be ignored here is refused.

The search itself is Optuna's; this file says what W&B's words mean to it, and writes a run's command and environment
the way W&B's agent does.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml

from atlas_gym.optional import require

_KEYS = ("name", "description", "project", "entity", "program", "method", "metric", "parameters", "command",
         "run_cap", "early_terminate")  # fmt: skip
_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
_ENVIRONMENT = re.compile(r"\$\{envvar:([A-Z0-9_]*)\}")
_KINDS = ("uniform", "int_uniform", "q_uniform", "log_uniform_values")


class SweepError(ValueError):
    """A sweep that cannot be run; the message names the key and the fix."""


@dataclass(frozen=True)
class Halving:
    """Early termination: at min_iter, eta·min_iter, eta²·min_iter … rounds the best 1/eta of the runs go on."""

    min_iter: int
    """Rounds before the first judgement."""
    eta: int
    """One in eta goes on."""


@dataclass(frozen=True)
class Sweep:
    """A search over configurations."""

    name: str
    """What its folder and its runs are called."""
    method: Literal["grid", "random", "bayes"]
    """How configurations are chosen."""
    metric: str
    """Name of the metric, one of `experiments.loggers.metrics`."""
    maximize: bool
    """Whether larger is better."""
    parameters: Mapping[str, Any]
    """What varies, by setting: an Optuna distribution; the choices of a categorical one are JSON texts."""
    program: str
    """The file's `program`; stands for `${program}` in the command."""
    command: tuple[str, ...]
    """The command of a run, with W&B's macros."""
    run_cap: int | None
    """Number of runs after which the sweep ends; None for no limit."""
    early_terminate: Halving | None
    """When a run is cut short; None for never."""
    text: str
    """The file as it is."""

    def cells(self) -> list[dict[str, Any]]:
        """Every combination of a grid, in Optuna's terms."""
        values = [_values(name, found) for name, found in self.parameters.items()]
        return [dict(zip(self.parameters, cell, strict=True)) for cell in product(*values)]


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file.

    Raises:
        SweepError: it cannot be read, or holds what this runner would have to ignore.
        ModuleNotFoundError: Optuna is not installed.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.safe_load(text)
    except OSError as error:
        raise SweepError(f"the sweep {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SweepError(f"{path} is not YAML: {error}") from error
    if not isinstance(values, Mapping):
        raise SweepError(f"{path} holds no sweep")
    if unknown := sorted(set(values) - set(_KEYS)):
        raise SweepError(f"{path}: `{unknown[0]}` is not supported here; known: {', '.join(_KEYS)}")
    return _build(values, text, default_name=path.stem)


def _build(values: Mapping[str, Any], text: str, default_name: str) -> Sweep:
    method, metric, run_cap = values.get("method"), values.get("metric"), values.get("run_cap")
    if method not in ("grid", "random", "bayes"):
        raise SweepError(f"method must be grid, random or bayes, not {method!r}")
    if not isinstance(metric, Mapping) or "name" not in metric:
        raise SweepError("metric needs a name; without one no configuration could be called the best")
    goal = metric.get("goal", "minimize")
    if goal not in ("minimize", "maximize"):
        raise SweepError(f"metric.goal must be minimize or maximize, not {goal!r}")
    if not values.get("parameters"):
        raise SweepError("parameters are missing")
    if run_cap is not None and (not isinstance(run_cap, int) or run_cap < 1):
        raise SweepError(f"run_cap must be a whole number of runs, not {run_cap!r}")
    sweep = Sweep(
        name=str(values.get("name", default_name)).replace("/", "-"),
        method=method,
        metric=str(metric["name"]),
        maximize=goal == "maximize",
        parameters=dict(_parameters(values["parameters"])),
        program=str(values.get("program", "")),
        command=tuple(map(str, values.get("command", _COMMAND))),
        run_cap=run_cap,
        early_terminate=_halving(values["early_terminate"]) if values.get("early_terminate") else None,
        text=text,
    )
    if method == "grid":
        sweep.cells()  # refuses what has no end
    return sweep


def _parameters(entries: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    """The parameters by setting; `phase: {parameters: {beta: …}}` is `phase.beta`."""
    if not isinstance(entries, Mapping):
        raise SweepError(f"{where}parameters must be a mapping of settings, not {entries!r}")
    for name, entry in entries.items():
        if isinstance(entry, Mapping) and "parameters" in entry:
            yield from _parameters(entry["parameters"], f"{where}{name}.")
        else:
            yield f"{where}{name}", parse_parameter(f"{where}{name}", entry)


def parse_parameter(name: str, entry: Any) -> Any:
    """A parameter as an Optuna distribution.

    Raises:
        SweepError: it is none, or of a distribution that is not supported here.
    """
    of = require("optuna.distributions", "optimisers")
    if not isinstance(entry, Mapping):
        raise SweepError(f"parameters.{name} must be a mapping such as {{value: {entry!r}}}")
    if "probabilities" in entry:
        raise SweepError(
            f"parameters.{name}: probabilities are not supported here; repeat a value in `values`"
        )
    try:
        if "value" in entry or "values" in entry:
            values = [entry["value"]] if "value" in entry else entry["values"]
            return of.CategoricalDistribution(tuple(json.dumps(value) for value in values))
        return _number(of, entry)
    except (TypeError, ValueError) as error:
        raise SweepError(f"parameters.{name}: {error}") from error


def _number(of: Any, entry: Mapping[str, Any]) -> Any:
    if "min" not in entry or "max" not in entry:
        raise ValueError("give `value`, `values`, or `min` and `max`")
    low, high = entry["min"], entry["max"]
    whole = isinstance(low, int) and isinstance(high, int)
    kind = entry.get("distribution", "int_uniform" if whole else "uniform")
    if kind not in _KINDS:
        raise ValueError(f"distribution {kind!r} is not supported here; use one of {', '.join(_KINDS)}")
    if kind == "int_uniform":
        return of.IntDistribution(int(low), int(high))
    if kind == "q_uniform":
        # W&B counts steps from 0, Optuna from the lower bound.
        q = entry.get("q", 1)
        low, high = -(-low // q) * q, high // q * q
        return (of.IntDistribution if isinstance(q, int) else of.FloatDistribution)(low, high, step=q)
    return of.FloatDistribution(low, high, log=kind == "log_uniform_values")


def _values(name: str, found: Any) -> list[Any]:
    if hasattr(found, "choices"):
        return list(found.choices)
    if found.step is None:
        raise SweepError(
            f"parameters.{name}: a grid needs `values`, or numbers with a step; this one is continuous"
        )
    return [found.low + i * found.step for i in range(round((found.high - found.low) / found.step) + 1)]


def _halving(values: Any) -> Halving:
    if not isinstance(values, Mapping) or values.get("type") != "hyperband":
        raise SweepError("early_terminate must have type: hyperband")
    if unknown := sorted(set(values) - {"type", "min_iter", "max_iter", "s", "eta"}):
        raise SweepError(f"early_terminate.{unknown[0]} is not supported here")
    eta = values.get("eta", 3)
    if not isinstance(eta, int) or eta < 2:
        raise SweepError(f"early_terminate.eta must be a whole number from 2 on, not {eta!r}")
    if "min_iter" not in values and "max_iter" not in values:
        raise SweepError("early_terminate needs min_iter, or max_iter and s")
    first = int(values.get("min_iter") or values["max_iter"] // eta ** int(values.get("s", 1)))
    if first < 1:
        raise SweepError("early_terminate judges no run before its first round: raise min_iter, or max_iter")
    return Halving(first, eta)


def expand(sweep: Sweep, parameters: Mapping[str, Any]) -> list[str]:
    """The command with its macros filled in.

    Raises:
        SweepError: it has a macro that is not known here.
    """
    words: list[str] = []
    for chunk in sweep.command:
        # As W&B: what is not set stands for its own name.
        chunk = _ENVIRONMENT.sub(lambda match: os.environ.get(match[1], match[1]), chunk)
        macro = re.fullmatch(r"\$\{(\w+)\}", chunk)
        words += _macro(macro[1], sweep, parameters) if macro else [chunk]
    return words


def _macro(name: str, sweep: Sweep, parameters: Mapping[str, Any]) -> list[str]:
    pairs = [f"{key}={value}" for key, value in parameters.items()]
    known = {
        "env": ["/usr/bin/env"],
        "interpreter": [sys.executable],
        "program": [sweep.program],
        "args": [f"--{pair}" for pair in pairs],
        "args_no_hyphens": pairs,
        "args_json": [json.dumps(dict(parameters))],
    }
    if name not in known:
        raise SweepError(f"the macro ${{{name}}} is not known here; known: {', '.join(known)}, envvar:NAME")
    return known[name]


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
