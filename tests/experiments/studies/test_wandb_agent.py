"""The sweep files under W&B's own agent: its code builds the command, starts the run and gives it its parameters. Only
what the agent would ask the server is answered here."""

import multiprocessing
import os
import sys
from pathlib import Path

import pytest
import wandb
import yaml
from wandb.apis.public import sweeps
from wandb.wandb_agent import Agent

from tests.experiments.wandb_file import read_offline

ROOT = Path(__file__).parents[3]
SMALL = yaml.safe_load((ROOT / "experiments" / "sweeps" / "small.yaml").read_text(encoding="utf-8"))
TINY = {
    "method": "search", "rounds": 1, "exploration": {"islands": 2, "samples": 2}, "held_out_seeds": 1,
    "env_args.replicas": 1, "env_args.horizon": 100, "torch_threads": 1, "seed": 3, "phase": {"beta": 2e-05},
}  # fmt: skip
"""One run's parameters, some of them nested, as the server sends them."""


@pytest.fixture
def run_agent(tmp_path, monkeypatch):
    """Runs an agent of W&B on one run of a sweep; returns the run's folder."""

    def run(sweep):
        command = {"type": "run", "run_id": "r1", "program": sweep["program"],
                   "args": {name: {"value": value} for name, value in TINY.items()}}  # fmt: skip
        monkeypatch.setattr(sweeps, "_sweep_with_runs", lambda *_: {"config": yaml.safe_dump(sweep)})
        monkeypatch.setattr(sweeps, "_register_agent", lambda *_, **__: {"id": "a1"})
        waiting = [command]
        monkeypatch.setattr(sweeps, "_agent_heartbeat", lambda *_: [waiting.pop()] if waiting else [])
        Agent(None, multiprocessing.Queue(), sweep_id="s1", count=1).run()
        return tmp_path / "runs" / "sweep-s1" / "r1"

    monkeypatch.setattr(wandb, "Api", lambda: None)
    monkeypatch.setattr(Agent, "POLL_INTERVAL", 0.2)
    monkeypatch.chdir(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    values = {"WANDB_SWEEP_ID": "s1", "WANDB_DIR": str(tmp_path), "WANDB_MODE": "offline", "PATH": path}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    for name in ("WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH"):  # set by the agent in this process
        monkeypatch.setenv(name, "")
    return run


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("embedded_weights")
@pytest.mark.parametrize("command", ["of the file", "of the agent"])
def test_an_agent_runs_a_sweep(command, run_agent):
    sweep = dict(SMALL)
    if command == "of the agent":  # env, interpreter, program, args
        del sweep["command"]
        sweep["program"] = str(ROOT / "experiments" / "run.py")
    folder = run_agent(sweep)
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    assert (config["method"], config["seed"], config["phase"]["beta"]) == ("search", 3, 2e-05)
    assert config["exploration"]["samples"] == 2
    (record,) = read_offline(folder)
    assert record.run_id == "r1"
    assert "held_out_score" in record.summary
    assert record.config["phase"]["beta"] == 2e-05
