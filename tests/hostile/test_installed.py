"""The package installed from its wheel, expert programs and all: no program can read them, no attack succeeds."""

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
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
WHERE = """
import sys
from pathlib import Path
import atlas_gym

def test_the_package_is_the_installed_one():
    assert Path(atlas_gym.__file__).is_relative_to(sys.prefix)
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_attack_succeeds(installed_python, tmp_path):
    """What the quick suite tries: every attack in the bandit, every kind in the other environments."""
    shutil.copytree(PROJECT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    where = tmp_path / "tests" / "hostile" / "test_where.py"
    where.write_text(WHERE)
    command = [str(installed_python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(where), "tests/hostile/test_confined.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout.splitlines()[-1])
