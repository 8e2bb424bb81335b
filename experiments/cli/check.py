"""Whether a file of settings is fit for use, before anything runs: `atlas check FILE.yaml`.

A configuration, a plan of a study, or a sweep, of which the least and the greatest values are tried.
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
            configs = [sweep_run(values, last) for last in (False, True)]
            print(f"ok    a sweep of {configs[0].method} over {', '.join(values['parameters'])}")
        else:
            Tasks(config := load_config(path, {}))
            print(f"ok    a configuration of {config.method} on {config.env}")
    except SettingsError as error:
        print(f"wrong {error}", file=sys.stderr)
        return 2
    return 0


def sweep_run(sweep: Mapping[str, Any], last: bool) -> RunConfig:
    """The configuration of a sweep's run that has the first, or the last, value of every parameter.

    Raises:
        SettingsError: a parameter is no setting, or has a value that none takes.
    """
    words = []
    for name, about in sweep["parameters"].items():
        try:
            values = about.get("values") or (
                [about["value"]] if "value" in about else [about["min"], about["max"]]
            )
        except (AttributeError, KeyError):
            raise SettingsError(f"parameters.{name} needs `value`, `values`, or `min` and `max`") from None
        words.append(f"--{name}={values[-1 if last else 0]}")
    flags, settings = read_arguments(words)
    config = load_config(find("configs", flags.config) if flags.config else None, settings)
    Tasks(config)
    return config
