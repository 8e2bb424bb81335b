"""The taskset in an environment that has verifiers (it cannot share one with OpenEnv: mcp 2 against mcp 1).

Such an environment is built on top of this one; that takes a minute and the package registry.
"""

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import gymnasium as gym
import pytest

import atlas_gym

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[3]
PINS = ROOT / "tests" / "atlas_gym" / "bridges" / "verifiers_constraints.txt"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verifiers")
    venv.create(folder, with_pip=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "outer.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    executable = folder / "bin" / "python"
    install = [executable, "-m", "pip", "install", "-q", "-c", PINS, "verifiers==0.4.0"]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"verifiers cannot be installed here: {done.stderr[-300:]}")
    return executable


def test_a_taskset_is_listed_and_scored(python):
    command = [python, "-m", "tests.atlas_gym.bridges.verifiers_scores"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seeds"] == [5, 6, 7]
    program = atlas_gym.task_spec("ATLAS-Bandit-v0").starts["named"]
    env = gym.make("ATLAS-Bandit-v0", horizon=60, replicas=1)
    expected = []
    for seed in (5, 6):
        prompt, _ = env.reset(seed=seed)
        expected.append(env.step(program)[4]["normalized_score"])
    env.close()
    assert found["prompt"] == prompt  # the prompt does not depend on the seed
    assert found["scores"] == [*expected, -1.0]


def test_without_verifiers_the_extra_is_named():
    code = "import sys; sys.modules['verifiers'] = None; import atlas_gym.bridges.verifiers"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "atlas-gym[verifiers]" in done.stderr
