import importlib.util
import subprocess
import sys

import pytest
from gymnasium.error import DependencyNotInstalled

import atlas_gym
from atlas_gym.evaluation import Limits
from atlas_gym.tasks.burgers.task import DEFAULT_LIMITS, BurgersTask


def test_description_and_signature_name_what_programs_get():
    spec = atlas_gym.make_task("ATLAS-Burgers-v0")
    assert spec.signature in spec.description
    for name in ("epoch", "n_epochs", "x", "t", "nu", "u", "u_x"):
        assert f'"{name}"' in spec.description
    assert all(spec.signature in start for start in spec.starts.values())
    assert "{" not in spec.description


def test_the_description_follows_the_constants():
    description = BurgersTask.from_keywords(
        preset="constant", nu1=0.05, steps=77, metric="residual"
    ).description
    assert "The viscosity ν is 0.05." in description
    assert "77" in description
    assert "held-out points" in description
    assert "geometrically, so that a shock forms" in BurgersTask().description


def test_constants_reach_the_task():
    task = atlas_gym.make_task(
        "ATLAS-Burgers-v0", seed=3, split="held_out", steps=9, limits=Limits(wall_s=1.0)
    )
    assert (task.seed, task.split, task.steps, task.limits.wall_s) == (3, "held_out", 9, 1.0)
    assert BurgersTask().at(0).limits == DEFAULT_LIMITS


@pytest.mark.parametrize(("seed", "split"), [(-1, "train"), (0, "test")])
def test_other_seeds_and_splits_are_refused(seed, split):
    with pytest.raises(ValueError, match=r"seed|split"):
        BurgersTask().at(seed, split)


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("atlas_gym.tasks.burgers.task.find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled, match=r'pip install "atlas-gym\[burgers\]"'):
        atlas_gym.make_task("ATLAS-Burgers-v0", seed=0)
    assert "Burgers" in BurgersTask().description


def test_posing_the_task_does_not_import_torch():
    code = (
        "import atlas_gym, sys; atlas_gym.make_task('ATLAS-Burgers-v0', seed=0);"
        "import atlas_gym.tasks.burgers.steps; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert importlib.util.find_spec("torch") is not None
