"""The taskset in the environment that has verifiers (it cannot share one with OpenEnv: mcp 2 against mcp 1).

`make test-all` builds that environment, `.venv-verifiers`, from `constraints-verifiers.txt`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import atlas_gym

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / os.environ.get("VENV_VERIFIERS", ".venv-verifiers") / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(
    not PYTHON.exists(), reason="no .venv-verifiers here: `make .venv-verifiers/.ready` builds it"
)
def test_a_taskset_is_listed_and_scored():
    command = [PYTHON, "-m", "tests.atlas_gym.bridges.verifiers_scores"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seeds"] == [5, 6, 7]
    program = atlas_gym.make_task("ATLAS-Bandit-v0").starts["named"]
    env = gym.make("ATLAS-Bandit-v0", horizon=60, replicas=1)
    expected = []
    for seed in (5, 6):
        prompt, _ = env.reset(seed=seed)
        expected.append(env.step(program)[4]["normalized_score"])
    env.close()
    assert found["prompt"] == prompt  # the prompt does not depend on the seed
    assert found["scores"] == pytest.approx([*expected, -1.0])


def test_without_verifiers_the_extra_is_named():
    code = "import sys; sys.modules['verifiers'] = None; import atlas_gym.bridges.verifiers"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "atlas-gym[verifiers]" in done.stderr
