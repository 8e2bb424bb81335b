"""What is distributed: wheel and sdist hold what they should, and work where a user's own folders bear our names."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import blocks

ROOT = Path(__file__).parents[1]
PACKAGES = ("atlas_gym", "atlas_gym/agents", "atlas_gym/trainers", "atlas_gym/experiments")
COMPILED = (".so", ".pyd", ".o", ".pyc", ".part")


def in_wheel(distribution: Path) -> list[str]:
    (wheel,) = distribution.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


@pytest.mark.slow
def test_a_pure_wheel_holds_nothing_compiled(distribution):
    (wheel,) = distribution.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert [name for name in in_wheel(distribution) if name.endswith(COMPILED)] == []


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_file_that_is_needed(distribution):
    names = set(in_wheel(distribution))
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
        for path in (ROOT / package).rglob("*"):
            if path.suffix in (".py", ".yaml", ".cpp", ".hpp", ".html", ".js", ".css", ".j2"):
                assert str(path.relative_to(ROOT)) in names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"atlas_gym"}


@pytest.mark.slow
def test_the_sdist_can_be_built_from(distribution):
    (archive,) = distribution.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "atlas_gym/tasks/burgers/kernel.cpp"} <= names
    assert not [name for name in names if name.endswith(COMPILED)]


@pytest.fixture
def users_folder(tmp_path):
    """An empty folder but for packages of the user's that bear names of ours."""
    for name in ("experiments", "agents"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the user\\'s own')\n")
    return tmp_path


@pytest.mark.slow
def test_the_readmes_blocks_work_beside_a_users_own_folders(installed_python, users_folder):
    task, first = (block.text for block in blocks(ROOT / "README.md") if block.language == "python")
    (users_folder / "first.py").write_text(first + 'print(info["status"])\n')
    (users_folder / "forecast.py").write_text(task)
    atlas = str(installed_python.parent / "atlas")
    for command, said in (
        ([str(installed_python), "first.py"], "ok"),
        ([atlas, "check", "./forecast.py", "--seeds", "1"], "ok    start"),
    ):
        done = subprocess.run(command, cwd=users_folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert said in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("evaluate ATLAS-Bandit-v0 mine.py --seeds 1", "ok 1"),
        ("run --config default --print-settings", "rounds"),
    ],
)
def test_the_command_works_beside_a_users_own_folders(command, said, installed_python, users_folder):
    if command.startswith("run"):
        pytest.importorskip("transformers", reason="needs the extra `learn`")
    (users_folder / "mine.py").write_text("def policy(context, history, t):\n    return 0\n")
    atlas = [str(installed_python.parent / "atlas"), *command.split()]
    done = subprocess.run(atlas, cwd=users_folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout


TINY = [
    "--evaluations=40", "--rounds=2", "--phase-every=1", "--max-phases=1", "--pairs.count=8", "--pairs.prompts=2",
    "--exploration.islands=2", "--exploration.samples=4", "--held-out-seeds=2", "--gate.prompts=2",
    "--taught-per-prompt=2", "--controls=[unseen]", "--exam.instances=[{}, {}]", "--folder=tiny",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("embedded_weights")
def test_a_run_with_the_newest_libraries_prints_no_warning(distribution, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    (wheel,) = distribution.glob("*.whl")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (torch,) = re.findall(
        r"^TORCH +\?= (\S+)$", makefile, re.M
    )  # the newest for CPUs has other names elsewhere
    for what in (torch, f"{wheel}[learn,wandb]"):
        installed = subprocess.run(
            [python, "-m", "pip", "install", "-q", what], capture_output=True, text=True
        )
        if installed.returncode:
            pytest.skip(f"no package index here: {installed.stderr[-300:]}")
    command = [str(python.parent / "atlas"), "run", *TINY]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert not re.findall(r"(?i).*(?:warning|deprecated).*", done.stdout)
