"""The page "Your own task": its blocks run in order, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "own-task.md"
BLOCKS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


ATLAS = [sys.executable, "-m", "experiments.cli.main"]
"""The command `atlas`, installed or not."""


def run_blocks(folder, *, slow):
    """Everything up to the slow blocks, and these too if asked for."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    for language, mark, text in BLOCKS:
        if "file=" in mark:
            (folder / mark.strip().removeprefix("file=")).write_text(text)
        elif language == "python":
            run([sys.executable, "-c", text], folder, environment)
        elif slow or "slow" not in mark:
            for line in text.splitlines():
                run([*ATLAS, *shlex.split(line)[1:]], folder, environment)


def run(command, folder, environment):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_its_blocks_run_in_an_empty_folder(tmp_path):
    run_blocks(tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_task_is_evolved(tmp_path, embedded_weights):
    run_blocks(tmp_path, slow=True)
    assert list((tmp_path / "run").glob("*report*.html"))


def test_every_command_is_one_of_this_package():
    commands = [line for language, _, text in BLOCKS if language == "sh" for line in text.splitlines()]
    assert commands
    assert all(line.startswith("atlas ") for line in commands)
