"""What `new-task` writes works as it stands."""

import os
import subprocess
import sys

import pytest

from atlas_gym.cli.main import main
from atlas_gym.cli.new_task import write_task


def test_the_files_work_as_they_stand(tmp_path, capsys):
    folder = tmp_path / "tasks"
    assert main(["new-task", "NextNumber", "--folder", str(folder)]) == 0, "in a folder that it makes"
    said = capsys.readouterr().out
    assert "predicting the next number" in said
    assert "atlas check" in said
    assert (folder / "next_number.py").read_text().count("# yours") > 4
    assert "class NextNumber(atlas_gym.ProgramTask" in (folder / "next_number.py").read_text()
    assert main(["check", str(folder / "next_number.py"), "--seeds", "1"]) == 0
    said = capsys.readouterr().out
    assert {line.split()[0] for line in said.splitlines()[1:]} == {"ok"}, said
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), str(folder)])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_next_number.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_overwritten(tmp_path):
    write_task("kept rods", tmp_path)
    with pytest.raises(FileExistsError, match=r"kept_rods\.py is there already"):
        write_task("KeptRods", tmp_path)


def test_names_that_are_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match="begin it with a letter"):
        write_task("2048", tmp_path)
