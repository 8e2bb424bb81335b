"""Every method on every environment as the command line runs it: real weights, killed once, resumed, recorded."""

import time
from pathlib import Path

import pytest

from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.methods import METHODS
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.cli.small_run import BANDIT, finish, start, stored_rounds

SMALLER = [
    "--seed=3", "--rounds=2", "--phase_every=1", "--skip_idle_phases=false", "--pairs.count=4", "--gate.samples=1",
    "--exploration.islands=2", "--exploration.samples=4",
]  # fmt: skip
ENVIRONMENTS = {
    "bandit": BANDIT,
    "burgers": ["--env=ATLAS-Burgers-v0", "--env_args.replicas=1", "--env_args.steps=60"],
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("embedded_weights")
@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_each_method_is_recorded_and_resumable(method, env, tmp_path):
    folder = tmp_path / "run"
    process = start(folder, f"--method={method}", *SMALLER, *ENVIRONMENTS[env])
    while process.poll() is None and stored_rounds(folder) < 0:
        time.sleep(0.02)
    process.kill()
    process.wait()
    finish(start(folder), folder)
    assert_recorded(folder, load_config(folder / "config.yaml", {}))


def assert_recorded(folder: Path, config: RunConfig) -> None:
    exploration = config.exploration
    with RunStore.open_readonly(folder) as store:
        candidates = list(store.candidates("c.round > 0"))
        phases = store.phases()
    written = [c for c in candidates if c.evaluated]
    assert 0 < len(written) <= config.rounds * exploration.islands * exploration.samples
    assert {c.origin for c in candidates} <= set(config.writers)
    assert {c.round for c in candidates} == {1, 2}
    assert len(phases) == config.phases == (1 if config.tuning else 0)
    for name in ("best_program.py", "report.html", "best_score.png"):
        assert (folder / name).stat().st_size > 0
