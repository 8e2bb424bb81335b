"""The sweep files: W&B's own format, settings that exist, and commands that W&B's agent would run alike."""

from pathlib import Path

import pytest
import yaml
from wandb.apis.public.sweeps import _validate_config_and_fill_distribution
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args, load_sweep_config

from experiments.studies.command import environment, expand
from experiments.studies.parameters import Choice, SweepError
from experiments.studies.search import next_parameters
from experiments.studies.sweep_file import Sweep, load_sweep
from trainers.loop.config import load_config
from trainers.store.plain import parse_overrides

FILES = sorted(Path("experiments/sweeps").glob("*.yaml"))


def sweep_with(command, **values):
    parameters = {name: Choice((value,), (1.0,)) for name, value in values.items()}
    return Sweep("s", "random", "m", True, parameters, "train.py", tuple(command), None, None, "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_configuration_of_a_file_is_a_run(path):
    sweep = load_sweep(path)
    for seed in range(20):
        parameters = next_parameters(sweep, [], seed)
        words = expand(sweep, parameters)
        assert words[1:4] == ["-m", "experiments.run", "--resume-if-exists"]
        config = load_config(None, parse_overrides(words[4:]))
        assert config.exploration.islands == parameters["exploration.islands"]
        assert config.method == parameters["method"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_wandb_reads_a_file_as_it_is(path):
    config = load_sweep_config(str(path))
    assert config == yaml.safe_load(path.read_text(encoding="utf-8"))
    _validate_config_and_fill_distribution(config)  # raises where bounds have no kind


def test_the_methods_of_search_are_all_there():
    assert {load_sweep(path).method for path in FILES} == {"grid", "random", "bayes"}


@pytest.mark.parametrize("macro", ["args", "args_no_hyphens", "args_json"])
def test_arguments_are_written_as_wandbs_agent_writes_them(macro):
    values = {"phase.beta": 1e-05, "method": "atlas", "flag": True, "none": None, "n": 3, "list": [1, "x y"]}
    theirs = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})
    assert expand(sweep_with([f"${{{macro}}}"], **values), values) == theirs[macro]


def test_the_other_macros(monkeypatch):
    monkeypatch.setenv("WHERE", "here")
    words = expand(sweep_with(["${env}", "${program}", "--to=${envvar:WHERE}/${envvar:UNSET}"]), {})
    assert words == ["/usr/bin/env", "train.py", "--to=here/UNSET"]
    with pytest.raises(SweepError, match="args_of_mine"):
        expand(sweep_with(["${args_of_mine}"]), {})


def test_parameters_reach_wandb_through_its_own_file(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    path = tmp_path / "parameters.yaml"
    found = environment("s-000", tmp_path / "run", {"phase.beta": 0.1}, path)
    assert found["WANDB_SWEEP_PARAM_PATH"] == str(path)
    assert yaml.safe_load(path.read_text()) == {"wandb_version": 1, "phase.beta": {"value": 0.1}}
    assert (found["WANDB_MODE"], found["WANDB_RUN_ID"]) == ("offline", "s-000")
    assert found["ATLAS_RUN_FOLDER"] == str(tmp_path / "run")
    assert "WANDB_SWEEP_ID" not in found
