"""The package installed from its wheel, expert programs and all: no program can read them."""

import shutil
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from pathlib import Path
import atlas_gym
from atlas_gym.evaluation import ConfinedEvaluator, UnconfinedEvaluator

package = Path(atlas_gym.__file__).parent
assert package.is_relative_to(sys.prefix), package
expert = package / "bandit" / "programs" / "kalman.py"
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


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory):
    """The interpreter of a fresh virtual environment that holds this package; the rest it borrows from here."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests", "docs", "runs")
    shutil.copytree(PROJECT, source, ignore=ignored)
    (source / "setup.py").unlink()  # the kernel need not be built
    pip = [sys.executable, "-m", "pip"]
    build = [
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(folder),
        str(source),
    ]
    subprocess.run([*pip, *build], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)], check=True)
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.slow
def test_expert_programs_cannot_be_read(interpreter, tmp_path):
    done = subprocess.run(
        [str(interpreter), "-c", textwrap.dedent(SCRIPT)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    confined, unconfined = done.stdout.splitlines()
    assert confined.split() == ["ok", "violation", "error", "error"]
    assert unconfined.split()[:2] == ["ok", "ok"]
