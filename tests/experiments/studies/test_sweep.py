"""Sweeps with a program that takes no time: run, killed, resumed, cut short, failed."""

import csv
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml

from atlas_gym.experiments.studies.search import Search
from atlas_gym.experiments.studies.sweep import main, results
from atlas_gym.experiments.studies.sweep_file import load_sweep
from atlas_gym.trainers.store.store import RunStore

COMMAND = 'command: ["${interpreter}", "-m", "tests.experiments.fake_run", "${args}"]\n'
HEAD = COMMAND + "metric: {name: score/best, goal: maximize}\n"
GRID = HEAD + "name: grid\nmethod: grid\nparameters: {beta: {values: [0.1, 0.3, 0.5, 0.8]}"


@pytest.fixture
def sweep(tmp_path):
    def run(text, *options, seed=0):
        (tmp_path / "sweep.yaml").write_text(text)
        return main(
            [str(tmp_path / "sweep.yaml"), "--folder", str(tmp_path / "s"), "--poll", "0.05", *options]
        )

    return run


@pytest.mark.parametrize("pause", ["-1", "0", "nan", "inf", "soon"])
def test_a_pause_that_is_none_is_refused(sweep, capsys, pause):
    with pytest.raises(SystemExit):
        sweep(GRID + "}", f"--poll={pause}")
    assert f"--poll: '{pause}' must be a number of seconds above 0" in capsys.readouterr().err


def runs_in(folder):
    """The rows of a sweep's results, as its store has them."""
    search = Search(load_sweep(folder.parent / "sweep.yaml"), folder, 0)
    try:
        return [{"run": number, **row} for number, row in results(search).to_dict("index").items()]
    finally:
        search.close()


def starts(folder):
    return {path.parent.name: len(path.read_text().splitlines()) for path in folder.glob("*/starts.txt")}


def test_a_grid_is_run_and_its_best_configuration_reported(sweep, tmp_path, capsys):
    assert sweep(GRID + "}\n", "--workers", "2") == 0
    best = yaml.safe_load((tmp_path / "s" / "best.yaml").read_text())
    assert best["parameters"] == {"beta": 0.3}
    assert best["score/best"] == pytest.approx(-0.2)
    assert "score/best = -0.2 with beta=0.3" in capsys.readouterr().out
    with (tmp_path / "s" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["beta"] for row in rows] == ["0.1", "0.3", "0.5", "0.8"]
    assert {row["state"] for row in rows} == {"finished"}
    assert starts(tmp_path / "s") == {f"grid-{i:03d}": 1 for i in range(4)}


def test_killed_in_the_middle_and_resumed(tmp_path, sweep):
    text = GRID + ", rounds: {value: 8}, sleep: {value: 0.15}}\n"
    folder = tmp_path / "s"
    (tmp_path / "sweep.yaml").write_text(text)
    command = [
        sys.executable,
        "-m",
        "atlas_gym.experiments.studies.sweep",
        str(tmp_path / "sweep.yaml"),
        "--folder",
        str(folder),
    ]
    process = subprocess.Popen([*command, "--workers", "2", "--poll", "0.05"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (folder / "grid-002" / "run.sqlite").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == [], "a killed sweep leaves no run behind"
    before = {run["run"]: run for run in runs_in(folder)}
    assert {run["state"] for run in before.values()} == {"finished", "running"}
    assert sweep(text, "--workers", "2") == 0
    after = runs_in(folder)
    assert [run["state"] for run in after] == ["finished"] * 4
    done = [n for n, run in before.items() if run["state"] == "finished"]
    assert all(after[n] == before[n] for n in done)
    again = starts(folder)
    assert all(again[f"grid-{n:03d}"] == 1 for n in done)
    assert again["grid-002"] == 2, "it was under way"
    for run in after:
        with RunStore.open_readonly(folder / f"grid-{run['run']:03d}") as store:
            assert store.count("candidates") == 9, "resumed, not begun again on top"
    assert yaml.safe_load((folder / "best.yaml").read_text())["parameters"]["beta"] == 0.3


def test_hyperband_cuts_short_what_falls_behind(sweep, tmp_path):
    text = HEAD + (
        "name: hb\nmethod: grid\nearly_terminate: {type: hyperband, min_iter: 2, eta: 2}\n"
        "parameters: {beta: {values: [0.3, 5.0, 6.0]}, rounds: {value: 6}, bad_waits_after: {value: 3}}\n"
    )
    assert sweep(text, "--workers", "1") == 0
    first, second, third = runs_in(tmp_path / "s")
    assert (first["state"], first["iterations"]) == ("finished", 6)
    for run in (second, third):
        assert run["state"] == "stopped"
        assert 2 <= run["iterations"] < 6
        assert "cut short" in run["note"]
    assert yaml.safe_load((tmp_path / "s" / "best.yaml").read_text())["run"] == 0


def test_a_sweep_in_the_background_can_stop_its_runs(sweep, tmp_path):
    before = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # as a shell starts what is to run in the background
    try:
        text = HEAD + (
            "name: hb\nmethod: grid\nearly_terminate: {type: hyperband, min_iter: 2, eta: 2}\n"
            "parameters: {beta: {values: [0.3, 5.0]}, rounds: {value: 6}, bad_waits_after: {value: 3}}\n"
        )
        assert sweep(text, "--workers", "1") == 0
    finally:
        signal.signal(signal.SIGINT, before)
    (log,) = (tmp_path / "s").glob("**/*001*.log")
    assert "asked to stop" in log.read_text()


def test_a_failed_run_is_recorded_with_its_last_words_and_stops_nothing(sweep, tmp_path):
    text = HEAD + "method: grid\nparameters: {broken: {values: [true, false]}}\n"
    assert sweep(text) == 0
    broken, fine = runs_in(tmp_path / "s")
    assert (broken["state"], fine["state"]) == ("failed", "finished")
    assert broken["note"] == "exit code 1: this configuration cannot work"


def test_a_command_that_never_works_ends_the_sweep(sweep, tmp_path, capsys):
    text = HEAD + "method: random\nparameters: {broken: {value: true}}\n"
    assert sweep(text) == 1
    assert len(runs_in(tmp_path / "s")) == 3
    assert "none has succeeded" in capsys.readouterr().out


def test_the_cap_counts_runs_of_all_sessions(sweep, tmp_path):
    text = HEAD + "method: random\nrun_cap: 2\nparameters: {beta: {min: 0.0, max: 1.0}}\n"
    assert sweep(text) == 0
    first = runs_in(tmp_path / "s")
    assert sweep(text) == 0
    assert runs_in(tmp_path / "s") == first
    assert len(first) == 2


def test_a_folder_belongs_to_one_sweep_and_one_process(sweep, tmp_path, capsys):
    text = HEAD + "method: random\nrun_cap: 1\nparameters: {beta: {value: 0.3}}\n"
    assert sweep(text) == 0
    assert sweep(text.replace("0.3", "0.4")) == 2
    assert "another sweep file" in capsys.readouterr().err
    assert sweep("# another comment\n" + text, "--seed", "1") == 2
    search = Search(load_sweep(tmp_path / "sweep.yaml"), tmp_path / "s", 0)
    assert sweep(text) == 2
    search.close()
    assert "another process" in capsys.readouterr().err
