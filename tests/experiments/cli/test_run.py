"""What the command line says: in words, and to the letter."""

import io
import os
import signal
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from atlas_gym.experiments.cli import main_job
from atlas_gym.experiments.cli.run import main
from atlas_gym.experiments.loggers.console import LiveView
from atlas_gym.hidden_streams import SECRET_VARIABLE, marks
from atlas_gym.trainers.loop.beginning import note_beginning, reached
from atlas_gym.trainers.loop.config import RunConfig, load_config, save_config
from atlas_gym.trainers.store.store import RunStore
from tests.secret import secret_is


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        # In brackets, as extras and lists are: a console with markup would swallow them.
        (["--config", "no[such,file].yaml"], "no[such,file].yaml"),
        (["--seed=[yes,no]"], "seed must be a valid integer, not ['yes', 'no']"),
        (["--resume", "--folder", "no[run]"], "--folder with a run in it: there is no folder no[run]"),
        (["--env=ATLAS-Nope-v0"], "there are ATLAS-Bandit-v0, ATLAS-Burgers-v0"),
        (["--start=nope"], "start must be one of named, inlined, scratch"),
        (["--env_args.horizn=3"], "no constant horizn"),
    ],
)
def test_a_mistake_is_one_line_and_a_usage_error(arguments, says, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_signal_is_as_ctrl_c_unless_it_is_ignored(number, ignored, tmp_path, monkeypatch):
    monkeypatch.setattr(main_job, "_run", lambda *_: os.kill(os.getpid(), number) or time.sleep(1) or 7)
    before = [(one, signal.getsignal(one)) for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)]
    signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        with nullcontext() if ignored else pytest.raises(KeyboardInterrupt):
            assert main_job.begin(RunConfig(), tmp_path) == 7
    finally:
        for one, handler in before:
            signal.signal(one, handler)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A folder with a run in it, where a run of these settings would go by itself."""
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {"method": "search", "rounds": 3})
    folder = tmp_path / "runs" / config.name
    folder.mkdir(parents=True)
    save_config(config, folder / "config.yaml")
    return folder


@pytest.mark.parametrize("named", [True, False], ids=["named folder", "folder by default"])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "continues it; or name another --folder"),
        (["--resume-if-exists", "--rounds=2"], "rounds: 3 against 2"),
        (["--resume-if-exists", "--phase.beta=0.2"], "phase.beta: 0.1 against 0.2"),
        (["--resume-if-exists", "--config", "other.yaml"], "torch_threads: 2 against 1"),
    ],
)
def test_a_folder_keeps_its_settings(stored, arguments, says, named, tmp_path, capsys):
    (tmp_path / "other.yaml").write_text("{method: search, rounds: 3, torch_threads: 1}")
    where = ["--folder", str(stored)] if named else []
    assert main([*where, "--method=search", "--rounds=3", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not (stored / "run.sqlite").exists()


def test_a_run_without_its_settings_is_not_taken_for_another(stored, capsys):
    with RunStore(stored) as store:
        store.add_round(0, [], {})
    (stored / "config.yaml").unlink()
    assert main(["--folder", str(stored), "--method=numbers-alone", "--tracking=off"]) == 1
    assert "config.yaml is gone" in capsys.readouterr().err


@pytest.fixture
def begun(tmp_path):
    """A folder with a run that has begun."""
    config = load_config(None, {"method": "search", "rounds": 3})
    with RunStore(tmp_path) as store:
        note_beginning(config, store)
        store.add_round(0, [], {})
    save_config(config, tmp_path / "config.yaml")
    return tmp_path


@pytest.mark.parametrize("damaged", ["", None, "\0\0\0", "agent: {islands: radiu}"])
def test_lost_or_damaged_settings_are_written_again(begun, damaged, capsys):
    path = begun / "config.yaml"
    before = path.read_text()
    path.write_text(damaged or "")
    if damaged:
        assert main(["--folder", str(begun), "--resume"]) == 2
        assert f"delete {path}: --resume writes it again" in capsys.readouterr().err
    if damaged != "":
        path.unlink()
    assert main(["--folder", str(begun), "--resume", "--print-settings"]) == 0
    assert path.read_text() == before == capsys.readouterr().out


def test_settings_that_were_cut_short_make_no_other_run(begun, capsys):
    path = begun / "config.yaml"
    cut = path.read_text().partition("rounds:")[0]
    path.write_text(cut)
    assert main(["--folder", str(begun), "--resume"]) == 2
    said = capsys.readouterr().err
    assert "rounds: 3 against 24" in said
    assert "delete that file" in said
    assert path.read_text() == cut


def test_a_run_keeps_its_secret(begun, capsys):
    with secret_is(f"{os.environ[SECRET_VARIABLE]}, another"):
        assert main(["--folder", str(begun), "--resume"]) == 2
    assert "was begun under another secret" in capsys.readouterr().err


@pytest.mark.usefixtures("embedded_weights")
def test_a_run_that_cannot_begin_leaves_its_folder_to_other_settings(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments = ["--folder", str(tmp_path), "--tracking=off", "--rounds=1"]
    assert main([*arguments, "--device=cuda"]) == 2
    assert "finds no GPU here" in capsys.readouterr().err
    assert not (tmp_path / "config.yaml").exists()
    assert main([*arguments, "--backend.name=vllm"]) == 1
    said = capsys.readouterr().out
    assert "vLLM" in said
    assert "--resume" not in said


WITHOUT_NUMBERS = '''
import atlas_gym


class Same(atlas_gym.ProgramTask):
    """x: a number. Returns it."""

    start = "def same(x):\\n    return x\\n"

    def instances(self, rng):
        return rng.random(2)

    def score(self, program, x):
        return -abs(program(x).number() - x)
'''


@pytest.mark.usefixtures("embedded_weights")
def test_a_start_with_nothing_to_edit_is_said_before_the_run_begins(tmp_path, capsys):
    (tmp_path / "same.py").write_text(WITHOUT_NUMBERS)
    arguments = ["--env", str(tmp_path / "same.py"), "--method=numbers-alone", "--tracking=off"]
    assert main([*arguments, "--folder", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "change in the start `named`, of numbers: numbers needs a number" in said
    assert not (tmp_path / "run" / "config.yaml").exists()


def row(round_, **more):
    counts = {"samples": 10, "valid": 8, "new": 5, "distinct": 1, "improving": 0}
    return {"round": round_, **counts, **more}


def test_the_live_view_shows_rounds_as_lines_and_text_in_brackets_as_it_is():
    console = Console(file=io.StringIO(), width=200)
    decision = {"reason": "kept: gain [b] is below"}
    with LiveView(2, 0, console) as view:
        view.stage("tuning again, because /runs/[a]/x is damaged: [/red]")
        phase = {"phase": 1, "round": 1, "promoted": False, "decision": decision}
        view.phase(phase | {"warnings": ["FROZEN [c]"]})
        view.phase({"phase": 2, "round": 2, "skipped": "no [d]"})
        view.round(row(1, consulted=6, skipped=[]), -0.5)
        assert "supporter" not in console.file.getvalue()
        view.round(row(2, consulted=6, skipped=["too slow", "HTTP status [500]"]), -0.5)
    said = console.file.getvalue()
    for part in ("/runs/[a]/x is damaged: [/red]", decision["reason"], "FROZEN [c]", "no [d]"):
        assert part in said
    assert "round 1/2 best -0.5000 valid 80% new 50% distinct 10% improving 0" in " ".join(said.split())
    assert "exploration supporter: 10 of 12 answered, last error: HTTP status [500]" in said


def test_the_time_left_is_told_once_a_phase_was_timed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("atlas_gym.experiments.loggers.console.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=200)

    def step(seconds, took, *told):
        now[0] += seconds
        took(*told)

    with LiveView(7, 1, console) as view:
        view.seeded(-0.5, 1, 7)
        step(1, view.round, row(1), -0.5)  # read out of the store
        step(60, view.round, row(2), -0.5)
        step(899, view.phase, {"promoted": False, "decision": None, "phase": 1, "round": 2})
        step(240, view.round, row(3), -0.5)
    *early, third = (line for line in console.file.getvalue().splitlines() if line.startswith("round"))
    assert not any("left" in line for line in early)
    assert third.endswith("about 40 min left")  # 4 rounds of 10 minutes, the phase's included


STRANGERS = {
    "a file": {"env": "{folder}/task.py:X"},
    "a folder": {"env": "{folder}"},
    "an address": {
        "backend": {"name": "openai", "server": {"model": "m", "base_url": "http://x.example/v1"}}
    },
    "a key": {
        "backend": {"name": "openai", "server": {"model": "m", "api_key_env": "AWS_SECRET_ACCESS_KEY"}}
    },
    "a supporter": {
        "supporters": {"strategist": {"endpoint": {"model": "m", "base_url": "http://x.example/v1"}}}
    },
    "vLLM's classes": {"backend": {"vllm": {"extra": {"worker_cls": "evil.Worker"}}}},
    "W&B's address": {"tracking": "auto"},
}


@pytest.mark.parametrize("resume", [["--resume"], ["--resume-if-exists"], []], ids=" ".join)
@pytest.mark.parametrize("settings", STRANGERS.values(), ids=STRANGERS)
def test_what_a_strangers_run_names_needs_trust(settings, resume, tmp_path, monkeypatch, capsys):
    ran = tmp_path / "ran"
    for name in ("task.py", "evaluator.py", "initial_program.py"):
        (tmp_path / name).write_text(f"open({str(ran)!r}, 'w')\n")
    if settings == STRANGERS["W&B's address"]:  # which W&B reads where it is started
        (tmp_path / "wandb").mkdir()
        (tmp_path / "wandb" / "settings").write_text("[default]\nbase_url = http://x.example")
        monkeypatch.chdir(tmp_path)
    config = load_config(None, {"method": "search"} | settings)
    config = replace(config, env=config.env.format(folder=tmp_path))
    save_config(config, tmp_path / "config.yaml")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
    with RunStore(tmp_path) as store:
        note_beginning(replace(config, env="ATLAS-Bandit-v0"), store)
        store.set_meta("marks", sorted(marks(reached(config))))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    assert main(["--folder", str(tmp_path), *resume]) == 2
    said = capsys.readouterr().err
    assert " ".join(reached(config)[-1].split()) in said
    assert "--trust" in said
    assert not ran.exists()
    assert main(["--folder", str(tmp_path), "--resume", "--trust", "--print-settings"]) == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
    assert main(["--folder", str(tmp_path), "--resume", "--print-settings"]) == 0
