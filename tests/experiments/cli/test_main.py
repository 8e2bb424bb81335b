"""The command `atlas`: every word leads somewhere, light ones stay light, wrong ones are answered with the nearest."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml

import atlas_gym
from atlas_gym.experiments.cli.main import COMMANDS, main
from atlas_gym.experiments.shipped import find
from atlas_gym.trainers.store.plain import SettingsError

HELP_WITHOUT_EXTRAS = """
import sys
from importlib.metadata import packages_distributions
BASE = {"atlas-gym", "gymnasium", "farama-notifications", "numpy", "scipy", "cloudpickle", "typing-extensions"}
class Extras:
    def find_spec(self, name, path=None, target=None):
        owners = {owner.lower().replace("_", "-") for owner in OWNERS.get(name, ())}
        if owners and not owners & {*BASE, "landlockpy", "seccompy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
OWNERS = packages_distributions()
sys.meta_path.insert(0, Extras())
from atlas_gym.experiments.cli.main import COMMANDS, main
for name in COMMANDS:
    print("@", name)
    try:
        main([name, "--help"])
    except SystemExit as ended:
        assert ended.code == 0
"""


def test_every_command_says_what_it_takes_without_any_extra():
    done = subprocess.run([sys.executable, "-c", HELP_WITHOUT_EXTRAS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    _, *said = done.stdout.split("@ ")
    for name, text in zip(COMMANDS, said, strict=True):
        usage, about, *_ = text.partition("\n")[2].split("\n\n")
        assert text.startswith(name)
        assert usage.startswith("usage: atlas")
        assert not about.startswith(("positional arguments:", "options:")), "what does it do?"


def test_the_list_has_what_can_be_run_by_name_and_the_version_is_told(capsys):
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in ("default", "small", "main_job"))
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"atlas-gym {atlas_gym.__version__}\n"


SWEEP = {"method": "grid", "parameters": {"phase.beta": {"values": [0.1, 0.4]}, "rounds": {"value": 2}}}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (SWEEP, "ok    a sweep of atlas over phase.beta, rounds"),
        ({"parameters": {"phase.betta": {"value": 1}}}, "unknown setting phase.betta; did you mean phase.beta?"),
        ({"parameters": {"phase.beta": {"min": 0.1, "max": "x"}}}, "phase.beta must be a valid number, not 'x'"),
        ({"parameters": {"phase.beta": {"max": 1}}}, "parameters.phase.beta needs `value`, `values`, or `min`"),
        ({"parameters": {"phase.beta": {"values": 3}}}, "parameters.phase.beta needs `value`, `values`, or `min`"),
        ({"parameters": ["seed"]}, "parameters: name each"),
        ({"parameters": {"pairs.builder": {"values": ["plain", "oops", "teach"]}}}, "pairs.builder"),
        ({"name": "x", "arms": {"a": None}, "tasks": {"b": {"env": "ATLAS-Bandit-v0"}}, "seeds": []}, "no runs"),
        ({"rounds": 3, "env_args": {"horizn": 3}}, "no constant horizn; did you mean horizon?"),
        ({"rounds": 3}, "ok    a configuration of atlas on ATLAS-Bandit-v0"),
        ({"name": "x", "arms": {"a": None}, "tasks": {"b": {"env": "ATLAS-Bandt-v0"}}}, "no task 'ATLAS-Bandt-v0'"),
    ],
)  # fmt: skip
def test_a_file_of_settings_is_checked_before_anything_runs(values, says, tmp_path, capsys):
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(values))
    assert main(["check", str(tmp_path / "file.yaml")]) == (0 if says.startswith("ok") else 2)
    captured = capsys.readouterr()
    assert says in captured.out + captured.err


def test_alone_it_lists_its_commands_and_a_typo_gets_the_nearest(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert main(["evalute"]) == 2
    assert "did you mean evaluate?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evaluate", "ATLAS-Bandit-v0", "kalman", "--first", "3"], "unrecognized arguments: --first"),
        (["study", "bandit", "--workers", "0"], "'0' must be a whole number of at least 1"),
        (["serve", "ATLAS-Bandit-v0", "--port", "70000"], "'70000' must be a whole number from 0 to 65535"),
    ],
)
def test_no_option_is_guessed_and_none_asks_for_nothing(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_commands_of_the_environments_need_nothing_heavy(tmp_path):
    code = (
        "import sys; from atlas_gym.experiments.cli.main import main; code = main(['list']);"
        "sys.exit(code or bool({'torch', 'transformers', 'rich', 'yaml'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ATLAS-Bandit-v0" in done.stdout


def test_a_reader_that_has_read_enough_is_no_error():
    words = [sys.executable, "-m", "atlas_gym.experiments.cli.main", "list"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [["--help"], ["list"]], ids=" ".join)
def test_an_output_without_room_is_one_line(command, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "atlas_gym.experiments.cli.main", *command],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert (done.returncode > 0, line.endswith("No space left on device")) == (True, True)


def test_an_output_that_lacks_characters_gets_question_marks():
    command = [sys.executable, "-m", "atlas_gym.experiments.cli.main", "run", "--help"]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"[--SETTING VALUE ?]" in done.stdout


def test_stripped_docstrings_are_said_at_once():
    command = [sys.executable, "-OO", "-m", "atlas_gym.experiments.cli.main", "run", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "run without -OO" in done.stderr.splitlines()[-1]


def test_a_closed_output_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--help"]) == 0
    assert main(["list"]) == 0


def test_an_interrupt_is_one_line(monkeypatch, capsys):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("atlas_gym.experiments.cli.main.importlib.import_module", interrupted)
    assert main(["evaluate"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_missing_package_names_its_extra(monkeypatch, capsys):
    def without_optuna(name):
        raise ModuleNotFoundError("No module named 'optuna'", name="optuna")

    monkeypatch.setattr("atlas_gym.experiments.cli.main.importlib.import_module", without_optuna)
    assert main(["evaluate", "x"]) == 2
    assert "atlas-gym[optimisers]" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path, monkeypatch, capsys):
    module = SimpleNamespace(main=lambda arguments: (tmp_path / "none" / "page.html").write_text(""))
    monkeypatch.setattr("atlas_gym.experiments.cli.main.importlib.import_module", lambda name: module)
    assert main(["report", "x"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert "page.html" in said


def test_shipped_files_are_found_by_name_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    assert find("configs", "default").name == "default.yaml"
    assert find("configs", "default.yaml").is_file()
    (tmp_path / "default.yaml").touch()
    assert find("configs", "default.yaml").resolve() == tmp_path / "default.yaml"
    with pytest.raises(SettingsError, match="did you mean default"):
        find("configs", "defalt")
