"""Every method on every environment as the command line runs it: real weights, killed once, resumed, recorded."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.methods import METHODS
from atlas_gym.trainers.store.store import RunStore, StoreError

SMALL = [
    "--rounds=2", "--phase_every=1", "--skip_idle_phases=false", "--pairs.count=4",
    "--gate.samples=1", "--held_out_seeds=2", "--tracking=off", "--torch_threads=1",
]  # fmt: skip
ISLANDS = [
    "--exploration.islands=2",
    "--exploration.samples=4",
    "--exploration.patches=1",
]
ENVIRONMENTS = {
    "ATLAS-Bandit-v0": ["--env_args.replicas=2", "--env_args.horizon=300"],
    "ATLAS-Burgers-v0": ["--env_args.replicas=1", "--env_args.steps=60"],
}


def start(method: str, env: str, folder: Path, *further: str) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "atlas_gym.experiments.run",
        "--folder",
        str(folder),
        "--resume-if-exists",
    ]
    if not (folder / "config.yaml").exists():
        islands = ISLANDS
        command += [
            "--method",
            method,
            "--env",
            env,
            "--seed",
            "3",
            *SMALL,
            *islands,
            *ENVIRONMENTS[env],
            *further,
        ]
    with open(folder.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def units(folder: Path) -> int:
    try:
        with RunStore.open_readonly(folder) as store:
            return len(list(store.round_summaries()))
    except StoreError:
        return 0  # not yet made


def kill_after_the_first_round(process: subprocess.Popen, folder: Path) -> None:
    while process.poll() is None and not units(folder):
        time.sleep(0.02)
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("embedded_weights")
@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_each_method_is_recorded_and_resumable(method, env, tmp_path):
    folder = tmp_path / "run"
    kill_after_the_first_round(start(method, env, folder), folder)
    code = start(method, env, folder).wait(timeout=500)
    log = folder.with_suffix(".log").read_text()
    assert code == 0, log
    assert_recorded(folder, load_config(folder / "config.yaml", {}))


def assert_recorded(folder: Path, config: RunConfig) -> None:
    exploration = config.exploration
    with RunStore.open_readonly(folder) as store:
        candidates = list(store.candidates("c.round > 0"))
        phases = store.phases()
    written = [c for c in candidates if c.origin == "agent"]
    assert len(written) == config.rounds * exploration.islands * exploration.samples
    assert {c.round for c in candidates} == {1, 2}
    assert len(phases) == config.phases == (1 if config.tuning else 0)
    for name in ("best_program.py", "report.html", "best_score.png"):
        assert (folder / name).stat().st_size > 0
