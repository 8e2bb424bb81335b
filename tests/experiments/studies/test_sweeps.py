"""The shipped sweep files: what W&B's agent makes of them is a run."""

from pathlib import Path

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

from atlas_gym.experiments.cli.check import sweep_runs
from atlas_gym.experiments.cli.options import read_arguments
from atlas_gym.experiments.loggers import metrics

SWEEPS = sorted((Path(__file__).parents[3] / "experiments" / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_the_agents_command_line_is_a_runs_configuration(file):
    sweep = yaml.safe_load(file.read_text(encoding="utf-8"))
    words = create_sweep_command_args({"args": {"phase.beta": {"value": 0.1}, "seed": {"value": 3}}})
    program, command, *arguments = create_sweep_command(sweep["command"])
    assert (program, command) == ("atlas", "run")
    flags, settings = read_arguments([word for word in arguments if word != "${args}"] + words["args"])
    assert flags.resume_if_exists
    assert settings == {"phase": {"beta": 0.1}, "seed": 3}
    runs = sweep_runs(sweep)
    assert {run.method for run in runs} == {"atlas"}
    assert min(len({run.phase.beta for run in runs}), len({run.seed for run in runs})) > 1
    assert sweep["metric"]["name"] in Path(metrics.__file__).read_text(encoding="utf-8")
