"""The command `atlas`: every word leads somewhere, light ones stay light, wrong ones are answered with the nearest."""

import subprocess
import sys

import pytest

from experiments.cli.main import COMMANDS, main
from experiments.shipped import find
from trainers.store.plain import SettingsError


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_takes(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert "usage: atlas" in capsys.readouterr().out


def test_alone_it_lists_its_commands(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in COMMANDS)


def test_a_typo_is_answered_with_the_nearest_command(capsys):
    assert main(["evalute"]) == 2
    assert "did you mean evaluate?" in capsys.readouterr().err


def test_commands_of_the_environments_need_nothing_heavy(tmp_path):
    code = (
        "import sys; from experiments.cli.main import main; code = main(['list']);"
        "sys.exit(code or bool({'torch', 'transformers', 'rich', 'yaml'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ATLAS-Bandit-v0" in done.stdout


@pytest.mark.parametrize("command", ["settings", "list"])
def test_a_reader_that_has_read_enough_is_no_error(command):
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli.main", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (0, b"")


def test_a_missing_package_names_its_extra(monkeypatch, capsys):
    def without_optuna(name):
        raise ModuleNotFoundError("No module named 'optuna'", name="optuna")

    monkeypatch.setattr("experiments.cli.main.importlib.import_module", without_optuna)
    assert main(["sweep", "x"]) == 2
    assert "atlas-gym[optimisers]" in capsys.readouterr().err


def test_shipped_files_are_found_by_name_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    assert find("configs", "default").name == "default.yaml"
    assert find("configs", "default.yaml").is_file()
    (tmp_path / "default.yaml").touch()
    assert find("configs", "default.yaml").resolve() == tmp_path / "default.yaml"


def test_a_name_that_nothing_has_is_answered_with_the_nearest():
    with pytest.raises(SettingsError, match="did you mean default"):
        find("configs", "defalt")
