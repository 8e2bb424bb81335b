"""The taskset in the environment that has verifiers (it cannot share one with OpenEnv: mcp 2 against mcp 1).

`make test-all` builds that environment, `.venv-verifiers`, from `constraints-verifiers.txt`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import atlas_gym
from atlas_gym.evaluation import ConfinedEvaluator

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / os.environ.get("VENV_VERIFIERS", ".venv-verifiers") / "bin" / "python"


OUTSIDE = '''\
import atlas_gym


class Outside(atlas_gym.ProgramTask):
    """x: a number. Returns half of it."""

    start = "def half(x):\\n    return x\\n"
    count: int = 3

    def instances(self, rng):
        return rng.random(self.count)

    def score(self, program, x):
        return -abs(program(x).number() - x / 2)
'''


@pytest.mark.slow
@pytest.mark.skipif(
    not PYTHON.exists(), reason="no .venv-verifiers here: `make .venv-verifiers/.ready` builds it"
)
@pytest.mark.parametrize("task", ["of this package", "from outside"])
def test_a_taskset_is_listed_and_scored(task, tmp_path):
    (tmp_path / "outside.py").write_text(OUTSIDE)
    env_id, constants = "ATLAS-Bandit-v0", {"horizon": 60, "replicas": 1}
    if task == "from outside":
        env_id, constants = f"{tmp_path}/outside.py:Outside", {"count": 2}
    command = [PYTHON, "-m", "tests.atlas_gym.bridges.verifiers_scores", env_id, json.dumps(constants)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seeds"] == [5, 6, 7]
    expected = []
    with ConfinedEvaluator() as evaluator:
        for seed in (5, 6):
            posed = atlas_gym.make_task(env_id, seed=seed, **constants)
            evaluation = evaluator.evaluate(posed.starts["named"], posed)
            expected.append(evaluation.metrics["normalized_score"])
    assert posed.description in found["prompt"]
    assert found["scores"] == pytest.approx([*expected, -1.0])


def test_without_verifiers_the_extra_is_named():
    code = "import sys; sys.modules['verifiers'] = None; import atlas_gym.bridges.verifiers"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "atlas-gym[verifiers]" in done.stderr
