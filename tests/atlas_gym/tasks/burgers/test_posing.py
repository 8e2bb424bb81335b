import importlib.util
import subprocess
import sys

import pytest
from gymnasium.error import DependencyNotInstalled

import atlas_gym
from atlas_gym.tasks.burgers.task import BurgersTask


def test_the_description_follows_the_constants():
    description = BurgersTask.from_keywords(
        preset="constant", nu1=0.05, steps=77, metric="residual"
    ).description
    assert "The viscosity ν is 0.05." in description
    assert "77" in description
    assert "held-out points" in description
    assert "geometrically, so that a shock forms" in BurgersTask().description


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
