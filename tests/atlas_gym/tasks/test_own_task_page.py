"""The page "Your own task": its blocks run in order, in an empty folder."""

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "own-task.md"
BLOCKS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def run_blocks(folder, python, atlas, environment, *, slow):
    """Everything up to the slow blocks, and these too if asked for; `atlas` is the command's first words."""
    for language, mark, text in BLOCKS:
        if "file=" in mark:
            (folder / mark.strip().removeprefix("file=")).write_text(text)
        elif language == "python":
            run([python, "-c", text], folder, environment)
        elif slow or "slow" not in mark:
            for line in text.splitlines():
                run([*atlas, *shlex.split(line)[1:]], folder, environment)


def run(command, folder, environment):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_its_blocks_run_in_an_empty_folder(tmp_path):
    atlas = [sys.executable, "-m", "atlas_gym.experiments.cli.main"]  # installed or not
    run_blocks(tmp_path, sys.executable, atlas, os.environ | {"PYTHONPATH": str(ROOT)}, slow=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("embedded_weights")
def test_it_can_be_followed_to_its_end_with_the_wheel_installed(tmp_path, installed_python):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    atlas = [str(installed_python.with_name("atlas"))]
    run_blocks(tmp_path, str(installed_python), atlas, environment, slow=True)
    assert "Complete: 5 rounds" in (tmp_path / "run" / "report.html").read_text()
    with sqlite3.connect(tmp_path / "run" / "run.sqlite") as store:
        (phases,) = store.execute("SELECT count(*) FROM phases").fetchone()
    assert phases == 1
