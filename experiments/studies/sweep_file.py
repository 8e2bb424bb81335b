"""A sweep file as W&B writes it, read strictly: what would be ignored here is refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from experiments.studies.hyperband import Hyperband
from experiments.studies.parameters import Parameter, SweepError, parse_parameter

_KEYS = ("name", "description", "project", "entity", "program", "method", "metric", "parameters", "command",
         "run_cap", "early_terminate")  # fmt: skip
_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")


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
    parameters: Mapping[str, Parameter]
    """What varies, by setting."""
    program: str
    """The file's `program`; stands for `${program}` in the command."""
    command: tuple[str, ...]
    """The command of a run, with W&B's macros."""
    run_cap: int | None
    """Number of runs after which the sweep ends; None for no limit."""
    early_terminate: Hyperband | None
    """When a run is cut short; None for never."""
    text: str
    """The file as it is."""


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file.

    Raises:
        SweepError: it cannot be read, or holds what this runner would have to ignore.
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
    unknown = sorted(set(values) - set(_KEYS))
    if unknown:
        raise SweepError(f"{path}: `{unknown[0]}` is not supported here; known: {', '.join(_KEYS)}")
    return _build(values, text, default_name=path.stem)


def _build(values: Mapping[str, Any], text: str, default_name: str) -> Sweep:
    method = values.get("method")
    if method not in ("grid", "random", "bayes"):
        raise SweepError(f"method must be grid, random or bayes, not {method!r}")
    metric = values.get("metric")
    if not isinstance(metric, Mapping) or "name" not in metric:
        raise SweepError("metric needs a name; without one no configuration could be called the best")
    goal = metric.get("goal", "minimize")
    if goal not in ("minimize", "maximize"):
        raise SweepError(f"metric.goal must be minimize or maximize, not {goal!r}")
    if not values.get("parameters"):
        raise SweepError("parameters are missing")
    run_cap = values.get("run_cap")
    if run_cap is not None and (not isinstance(run_cap, int) or run_cap < 1):
        raise SweepError(f"run_cap must be a whole number of runs, not {run_cap!r}")
    parameters = {
        str(name): parse_parameter(str(name), entry) for name, entry in values["parameters"].items()
    }
    if method == "grid":
        for name, parameter in parameters.items():
            _check_grid(name, parameter)
    early = values.get("early_terminate")
    return Sweep(
        name=str(values.get("name", default_name)).replace("/", "-"),
        method=method,
        metric=str(metric["name"]),
        maximize=goal == "maximize",
        parameters=parameters,
        program=str(values.get("program", "")),
        command=tuple(map(str, values.get("command", _COMMAND))),
        run_cap=run_cap,
        early_terminate=Hyperband.parse(early) if early is not None else None,
        text=text,
    )


def _check_grid(name: str, parameter: Parameter) -> None:
    try:
        parameter.grid()
    except SweepError as error:
        raise SweepError(f"parameters.{name}: {error}") from error
