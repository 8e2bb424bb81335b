"""The sweep files: W&B's own format, settings that exist, and commands that W&B's agent would run alike."""

import os
import sys
from pathlib import Path

import pytest
import yaml
from wandb.apis.public.sweeps import _validate_config_and_fill_distribution
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args, load_sweep_config

from atlas_gym.experiments.cli.options import read_arguments
from atlas_gym.experiments.studies.search import Search
from atlas_gym.experiments.studies.sweep_file import Metric, Sweep, environment, expand, load_sweep
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import SettingsError

FILES = sorted((Path(__file__).parents[3] / "experiments" / "sweeps").glob("*.yaml"))


def sweep_with(command, **values):
    parameters = {name: {"value": value} for name, value in (values or {"seed": 0}).items()}
    return Sweep("random", Metric("m"), parameters, "s", program="train.py", command=tuple(command))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_runs_of_a_file_exist_and_write_equal_numbers_of_candidates(path, tmp_path):
    sweep = load_sweep(path)
    search = Search(sweep, tmp_path / "s", 0)
    drawn = [search.settings(search.next()) for _ in range(20 if sweep.run_cap is None else sweep.run_cap)]
    search.close()
    configs = []
    for parameters in drawn:
        words = expand(sweep, parameters)
        assert words[:3] == ["atlas", "run", "--resume-if-exists"]
        configs.append(load_config(None, read_arguments(words[2:])[1]))
    assert [config.phase.beta for config in configs] == [parameters["phase.beta"] for parameters in drawn]
    assert len({(c.method, c.rounds, c.exploration, c.supporters.exploration) for c in configs}) == 1
    assert len({config.seed for config in configs}) > 1
    assert sweep.metric == Metric("held_out_score", "maximize")


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
    with pytest.raises(SettingsError, match="args_of_mine"):
        expand(sweep_with(["${args_of_mine}"]), {})


@pytest.mark.parametrize(
    ("low", "high", "q", "values"),
    [
        (0.0, 1.0, 0.1, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (0.3, 0.6, 0.1, [0.3, 0.4, 0.5, 0.6]),
        (0.05, 0.32, 0.1, [0.1, 0.2, 0.3]),
        (3, 11, 4, [4, 8]),
    ],
)
def test_steps_are_multiples_of_q_the_bounds_included(tmp_path, low, high, q, values):
    (tmp_path / "steps.yaml").write_text(
        "method: grid\nmetric: {name: m}\nparameters:\n"
        f"  phase.beta: {{distribution: q_uniform, min: {low}, max: {high}, q: {q}}}\n"
    )
    assert [cell["phase.beta"] for cell in load_sweep(tmp_path / "steps.yaml").cells()] == values


def test_nested_parameters_are_settings_with_dots(tmp_path):
    (tmp_path / "nested.yaml").write_text(
        "method: grid\nmetric: {name: held_out_score}\nparameters:\n"
        "  seed: {values: [0, 1]}\n"
        "  phase: {parameters: {beta: {values: [0.1, 0.2]}}}\n"
        "  exploration: {parameters: {samples: {value: 4}}}\n"
    )
    sweep = load_sweep(tmp_path / "nested.yaml")
    assert set(sweep.distributions) == {"seed", "phase.beta", "exploration.samples"}
    assert len(sweep.cells()) == 4
    (tmp_path / "wrong.yaml").write_text(
        "method: grid\nmetric: {name: m}\nparameters: {phase: {parameters: [beta]}}\n"
    )
    with pytest.raises(SettingsError, match=r"phase\.parameters must be a mapping"):
        load_sweep(tmp_path / "wrong.yaml")


def test_a_run_of_a_local_sweep_is_told_what_an_agent_would_tell_it(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)
    path = tmp_path / "parameters.yaml"
    found = environment("s", "s-000", tmp_path / "run", {"phase.beta": 0.1}, path)
    assert found["WANDB_SWEEP_PARAM_PATH"] == str(path)
    assert yaml.safe_load(path.read_text()) == {"wandb_version": 1, "phase.beta": {"value": 0.1}}
    assert (found["WANDB_RUN_ID"], found["WANDB_RUN_GROUP"]) == ("s-000", "s")
    assert found["ATLAS_RUN_FOLDER"] == str(tmp_path / "run")
    assert "WANDB_SWEEP_ID" not in found
    assert "WANDB_MODE" not in found, "who is logged in is online here too"
    assert found["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent), "`atlas` is this one"
    monkeypatch.setenv("WANDB_RUN_GROUP", "mine")
    assert environment("s", "s-000", tmp_path / "run", {}, path)["WANDB_RUN_GROUP"] == "mine"
