"""The package installed from its wheel, expert programs and all: no program can read them."""

import subprocess
import textwrap

import pytest

SCRIPT = """
import sys
from pathlib import Path
import atlas_gym
from atlas_gym.evaluation import ConfinedEvaluator, UnconfinedEvaluator

package = Path(atlas_gym.__file__).parent
assert package.is_relative_to(sys.prefix), package
expert = package / "tasks" / "bandit" / "experts" / "kalman.py"
assert expert.exists()
honest = atlas_gym.make_task("ATLAS-Bandit-v0").starts["named"]
task = atlas_gym.make_task("ATLAS-Bandit-v0", seed=0, horizon=20, replicas=1)
reading = f"exec(open({str(expert)!r}).read())"
importing = "import atlas_gym.tasks.bandit.experts.kalman as k; policy = k.policy"
by_path = f"import sys; sys.path.insert(0, {str(expert.parent)!r}); from kalman import policy"
for evaluator in (ConfinedEvaluator(), UnconfinedEvaluator()):
    with evaluator:
        print(*(evaluator.evaluate(text, task).status.value for text in (honest, reading, importing, by_path)))
"""


@pytest.mark.slow
def test_expert_programs_cannot_be_read(installed_python, tmp_path):
    done = subprocess.run(
        [str(installed_python), "-c", textwrap.dedent(SCRIPT)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    confined, unconfined = done.stdout.splitlines()
    assert confined.split() == ["ok", "violation", "error", "error"]
    assert unconfined.split()[:2] == ["ok", "ok"]
