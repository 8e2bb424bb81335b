import sys

import pytest

from atlas_gym.cli.main import main
from atlas_gym.tasks.bandit.experts import EXPERTS

SMALL = ["--set", "horizon=60", "--set", "replicas=2"]


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(EXPERTS["tuned_sw_linucb"].program, encoding="utf-8")
    return path


def evaluate(*arguments):
    return main(["evaluate", "ATLAS-Bandit-v0", "--workers", "1", *map(str, arguments)])


def test_evaluating_a_file_prints_score_interval_status_feedback_and_time(program, capsys):
    assert evaluate(program, "--seeds", 4, *SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("4 seeds of train")
    rows = {line.split()[0]: line for line in lines[1:] if not line.startswith(" ")}
    assert "ok 4" in rows["status"]
    assert "95 % interval over seeds [-0." in rows["score"]
    assert "s wall" in rows["time"]
    assert "seccomp" in rows["layers"]
    assert "Status: ok" in rows["feedback"]


def test_whoever_waits_at_a_terminal_sees_how_far_it_is(program, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert evaluate(program, "--seeds", 2, *SMALL) == 0
    assert "1 of 2 evaluated" in capsys.readouterr().err


def test_experts_are_known_by_name_and_seeds_can_be_chosen(program, capsys):
    outputs = []
    for name, first in ((program, 5), ("tuned_sw_linucb", 5), ("tuned_sw_linucb", 6)):
        assert evaluate(name, "--seeds", 1, "--first_seed", first, *SMALL) == 0
        outputs.append(
            next(line for line in capsys.readouterr().out.splitlines() if line.startswith("score"))
        )
    assert outputs[0] == outputs[1] != outputs[2]
    assert "one seed: no interval" in outputs[0]


def test_a_failing_program_gets_no_score_and_exit_code_1(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text("def policy(context, history, t):\n    return theta\n")
    assert evaluate(path, "--seeds", 2, *SMALL) == 1
    output = capsys.readouterr().out
    assert "error 2" in output
    assert "score      none" in output
    assert "NameError" in output


def test_unconfined_is_possible_and_shows(program, capsys):
    assert evaluate(program, "--seeds", 1, "--unconfined", *SMALL) == 0
    assert "seccomp" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "missing.py is neither a file nor an expert program; those are "),
        (["kalman", "--set", "horizon"], "'horizon' is not NAME=VALUE"),
        (["kalman", "--set", "split=held_out"], "split is no constant"),
        (["kalman", "--set", "preset=papr"], "no preset 'papr'"),
        (["kalman", "--set", "horizn=3"], "no constant horizn"),
        (["kalman", "--set", f"horizon={'-' * 5000}1"], "it must be a whole number"),
        (["kalman", "--set", "horizon={[]: 1}"], "it must be a whole number"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, capsys):
    assert evaluate(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_the_list_shows_every_environment(capsys):
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    assert "ATLAS-Bandit-v0\n" in output
    assert "ATLAS-Burgers-v0\n" in output
    assert "sw_linucb" in output
