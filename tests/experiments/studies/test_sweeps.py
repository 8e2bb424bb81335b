"""The shipped sweep files: what W&B's agent makes of them is a run."""

from pathlib import Path

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

from atlas_gym.experiments.cli.options import read_arguments
from atlas_gym.experiments.loggers import metrics
from atlas_gym.trainers.loop.config import load_config

SWEEPS = sorted((Path(__file__).parents[3] / "experiments" / "sweeps").glob("*.yaml"))


def ends(parameter):
    """The first and the last value that a parameter may take."""
    if "value" in parameter:
        return [parameter["value"]] * 2
    values = parameter.get("values") or [parameter["min"], parameter["max"]]
    return [values[0], values[-1]]


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
@pytest.mark.parametrize("end", [0, 1])
def test_the_agents_command_line_is_a_runs_configuration(file, end):
    sweep = yaml.safe_load(file.read_text(encoding="utf-8"))
    chosen = {name: ends(parameter)[end] for name, parameter in sweep["parameters"].items()}
    words = create_sweep_command_args({"args": {name: {"value": value} for name, value in chosen.items()}})
    program, command, *arguments = create_sweep_command(sweep["command"])
    assert (program, command) == ("atlas", "run")
    flags, settings = read_arguments([word for word in arguments if word != "${args}"] + words["args"])
    assert flags.resume_if_exists
    config = load_config(None, settings)
    assert config.method == chosen["method"]
    assert config.seed == chosen["seed"]
    assert config.phase.beta == chosen["phase.beta"]
    assert sweep["metric"]["name"] in Path(metrics.__file__).read_text(encoding="utf-8")
