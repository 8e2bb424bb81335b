"""Whether a file of settings is fit for use, before anything runs: `atlas check FILE.yaml`.

A configuration, a plan of a study, or a sweep, of which every value is tried with the first values of the others.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atlas_gym.arguments import Parser
from atlas_gym.experiments.cli.options import read_arguments
from atlas_gym.experiments.shipped import find
from atlas_gym.experiments.studies.plan import read_plan
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.tasks import Tasks
from atlas_gym.trainers.store.plain import SettingsError, read_layers


def main(arguments: Sequence[str] | None = None) -> int:
    """Say what the file is; returns the exit code (0 fit, 2 not)."""
    parser = Parser(prog="atlas check", description=__doc__)
    parser.add_argument("file", type=Path)
    path = parser.parse_args(arguments).file
    try:
        values = read_layers(path, "the file")
        if "arms" in values:
            print(f"ok    a plan of {len(read_plan(path).runs())} runs")
        elif "parameters" in values:
            configs = sweep_runs(values)
            print(f"ok    a sweep of {configs[0].method} over {', '.join(values['parameters'])}")
        else:
            Tasks(config := load_config(path, {}))
            print(f"ok    a configuration of {config.method} on {config.env}")
    except SettingsError as error:
        print(f"wrong {error}", file=sys.stderr)
        return 2
    return 0


def sweep_runs(sweep: Mapping[str, Any]) -> list[RunConfig]:
    """The configuration of the sweep's run that has the first value of every parameter, and of those that have another
    value of one of them. Raises `SettingsError`: a parameter is no setting, or has a value that none takes."""
    if not isinstance(sweep["parameters"], Mapping):
        raise SettingsError("parameters: name each, with its `value`, `values`, or `min` and `max`")
    values = {name: _values(str(name), about) for name, about in sweep["parameters"].items()}
    first = {name: own[0] for name, own in values.items()}
    chosen = [first, *({**first, name: value} for name, own in values.items() for value in own[1:])]
    configs = []
    for own in chosen:
        flags, settings = read_arguments([f"--{name}={value}" for name, value in own.items()])
        config = load_config(find("configs", flags.config) if flags.config else None, settings)
        Tasks(config)
        configs.append(config)
    return configs


def _values(name: str, about: object) -> list[Any]:
    """The values of a parameter, of a distribution its ends."""
    if isinstance(about, Mapping):
        if isinstance(values := about.get("values"), list) and values:
            return values
        if "value" in about:
            return [about["value"]]
        if {"min", "max"} <= about.keys():
            return [about["min"], about["max"]]
    raise SettingsError(f"parameters.{name} needs `value`, `values`, or `min` and `max`")
