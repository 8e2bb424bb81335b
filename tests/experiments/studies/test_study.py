"""A study is run, stopped, resumed, survives a run that fails, and writes what the finished ones came to."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from atlas_gym.experiments.studies.__main__ import main
from atlas_gym.experiments.studies.plan import Arm, Plan, Task
from atlas_gym.experiments.studies.results import add, by_task, collect, known_runs, read_data, summaries
from atlas_gym.experiments.studies.scheduler import DONE, do_runs
from atlas_gym.trainers.loop.control import FOLDER
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import Layout, make_run

BANDIT = {"bandit": Task("ATLAS-Bandit-v0")}
QUICK = {
    "env_args": {"horizon": 60, "replicas": 1}, "rounds": 1, "held_out_seeds": 1, "workers": 1, "torch_threads": 1,
    "exploration": {"islands": 1, "samples": 4, "sites": 4},
}  # fmt: skip
"""A run of a method without a model, on a bandit that takes no time."""
PLAN = """\
name: x
tasks: {bandit: {env: ATLAS-Bandit-v0}}
arms: {atlas: {}, evotune: {method: evotune}}
seeds: [1, 2]
settings:
  {rounds: 6, phase_every: 4, held_out_seeds: 4, exploration: {islands: 3, samples: 4},
   phase: {reference: gated, initialisation: previous}}
"""
"""Of runs as `make_run` makes them."""


def test_a_failed_run_is_reported_and_its_log_named(tmp_path):
    plan = Plan("x", BANDIT, {"a": Arm(settings={"model": str(tmp_path / "no model")})}, seeds=(0,))
    lines: list[str] = []
    assert [run.name for run in do_runs(plan, tmp_path, 1, lines.append)] == ["bandit-a-s0"]
    assert "failed with exit code" in lines[-1]
    assert "no model" in (tmp_path / "bandit-a-s0" / "log.txt").read_text()
    assert not (tmp_path / "bandit-a-s0" / DONE).exists()


def test_finished_runs_go_on_only_when_the_plan_has_more_rounds(tmp_path):
    plan = Plan("x", BANDIT, {"a": Arm("numbers-alone")}, seeds=(0,), settings=QUICK)
    assert do_runs(plan, tmp_path, 1, print) == []
    lines: list[str] = []
    assert do_runs(plan, tmp_path, 1, lines.append) == []
    assert lines == []
    longer = replace(plan, settings={**QUICK, "rounds": 2})
    assert do_runs(longer, tmp_path, 1, lines.append) == []
    assert lines == ["bandit-a-s0: begins", "bandit-a-s0: done"]
    assert collect(longer, tmp_path)["runs"]["candidates"].tolist() == [8]
    other = replace(longer, arms={"a": Arm("expressions-alone")})
    for use in (lambda: do_runs(other, tmp_path, 1, print), lambda: collect(other, tmp_path)):
        with pytest.raises(SettingsError, match=r"bandit-a-s0 was done with other settings .*method"):
            use()


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_study_that_was_stopped_goes_on_where_it_was(tmp_path, how):
    file, settings = (
        tmp_path / "plan.yaml",
        QUICK | {"env_args": {"horizon": 500, "replicas": 1}, "rounds": 30},
    )
    tasks, arms = {"bandit": {"env": "ATLAS-Bandit-v0"}}, {"a": {"method": "numbers-alone"}}
    file.write_text(
        yaml.safe_dump({"name": "x", "tasks": tasks, "arms": arms, "seeds": [0], "settings": settings})
    )
    command = [
        sys.executable,
        "-m",
        "atlas_gym.experiments.studies",
        str(file),
        "--runs",
        str(tmp_path / "runs"),
    ]
    study = subprocess.Popen(command, start_new_session=True)
    run = tmp_path / "runs" / "bandit-a-s0"
    while rounds(run) < 2:
        assert study.poll() is None, (run / "log.txt").read_text()
        time.sleep(0.2)
    os.kill(study.pid, how)
    study.wait(60)
    assert 2 <= rounds(run) < 30
    assert main([str(file), "--runs", str(tmp_path / "runs")]) == 0
    assert rounds(run) == 30


def rounds(run):
    """Rounds that a run has stored."""
    if not (run / "run.sqlite").exists():
        return 0
    with RunStore.open_readonly(run) as store:
        return max((r["round"] for r in store.round_summaries()), default=0)


@pytest.fixture
def study(tmp_path):
    """A plan's file, and the folder of its runs, of which three of four have ended."""
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    for arm, seed in (("atlas", 1), ("evotune", 1), ("atlas", 2)):
        made = make_run(tmp_path / f"bandit-{arm}-s{seed}", Layout(method=arm, seed=seed, rounds=6))
        (made / DONE).touch()
    return file, tmp_path


def test_finished_runs_become_data_tables_and_a_picture(study, tmp_path, capsys):
    file, folder = study
    assert main([str(file), "--tables", "--runs", str(folder), "--output", str(tmp_path / "out")]) == 0
    runs = read_data(tmp_path / "out")["runs"]
    assert list(zip(runs.arm, runs.seed, strict=True)) == [("atlas", 1), ("evotune", 1), ("atlas", 2)]
    assert (tmp_path / "out" / "improvement.png").stat().st_size
    printed = capsys.readouterr().out
    assert "| bandit | atlas | 2 |" in printed
    assert main([str(tmp_path / "out"), "--measure", "valid_share", "--against", "evotune"]) == 0
    assert "Less evotune" in capsys.readouterr().out
    assert (tmp_path / "out" / "valid_share.png").exists()


def test_runs_stand_beside_their_controls(study, tmp_path, capsys):
    file, folder = study
    for seed in (1, 2):
        own = folder / f"bandit-atlas-s{seed}"
        make_run(own / FOLDER / "numbers-alone", Layout(method="numbers-alone", seed=seed + 7, rounds=6))
    assert main([str(file), "--tables", "--runs", str(folder), "--output", str(tmp_path / "out")]) == 0
    rows = read_data(tmp_path / "out")["controls"]
    ahead = (rows.run - rows.beside).mean()
    assert f"| numbers-alone | 2 | 0 | 0 | {ahead:+.4f} [" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--measure", "arm"], ["--against", "search"]])
def test_what_the_data_do_not_have_is_named(study, tmp_path, wrong, capsys):
    file, folder = study
    assert main([str(file), "--tables", "--runs", str(folder), *wrong]) == 2
    assert wrong[1] in capsys.readouterr().err


def test_a_study_goes_on_from_its_data_alone(study, tmp_path):
    file, folder = study
    places = ["--runs", str(folder), "--output", str(tmp_path / "out")]
    (folder / "bandit-atlas-s2").rename(tmp_path / "later")
    assert main([str(file), "--tables", *places]) == 0
    (tmp_path / "later").rename(folder / "bandit-atlas-s2")
    for gone in ("atlas", "evotune"):
        (folder / f"bandit-{gone}-s1" / DONE).unlink()
    assert main([str(file), "--tables", "--add", *places]) == 0
    found = known_runs(read_data(tmp_path / "out"))
    assert found == {"bandit-atlas-s1", "bandit-evotune-s1", "bandit-atlas-s2"}
    again = read_data(tmp_path / "out")
    first = again | {"runs": again["runs"][:1]}
    assert (
        add(again, first)["runs"].reset_index(drop=True).equals(again["runs"])
    )  # the first arm stays the first
    lines: list[str] = []
    plan = Plan("x", BANDIT, {"atlas": Arm()}, seeds=(1, 2))
    do_runs(plan, tmp_path / "elsewhere", 1, lines.append, found)
    assert lines == []


def test_a_full_disk_leaves_the_data_that_were_there(study, tmp_path, monkeypatch):
    file, folder = study
    asked = [str(file), "--tables", "--runs", str(folder), "--output", str(tmp_path / "out")]
    assert main(asked) == 0
    data = (tmp_path / "out" / "runs.csv").read_text()

    def fills_the_disk(_frame: object, path: Path, **_kwargs: object) -> None:
        Path(path).write_text("arm,st")
        raise OSError("no space left on device")

    monkeypatch.setattr("pandas.DataFrame.to_csv", fills_the_disk)
    with pytest.raises(OSError, match="no space"):
        main(asked)
    assert (tmp_path / "out" / "runs.csv").read_text() == data


@pytest.mark.parametrize("damage", ["", "a,b\n1,2\n", "\0\0"])
def test_damaged_data_are_named(tmp_path, damage, capsys):
    (tmp_path / "runs.csv").write_text(damage)
    assert main([str(tmp_path)]) == 2
    assert f"The data in {tmp_path} are damaged: put them back" in capsys.readouterr().err


def test_where_nothing_has_ended_it_says_so(tmp_path, capsys):
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert main([str(tmp_path / "plan.yaml"), "--tables", "--runs", str(tmp_path / "runs")]) == 2
    assert "no run has ended yet" in capsys.readouterr().err


STUDIES = sorted((Path(__file__).parents[3] / "docs" / "study").iterdir())


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_a_published_study_is_a_page_its_data_and_one_picture(folder):
    assert known_runs(read_data(folder))
    files = {path.name for path in folder.iterdir()}
    assert files >= {"README.md", "runs.csv"}
    pictures = {name for name in files if not name.endswith(".csv")} - {"README.md"}
    assert pictures in ({"improvement.png"}, {"nats.png"})
    assert len((folder / "README.md").read_text(encoding="utf-8").split()) <= 400


def test_differences_are_paired_by_seed_with_tasks_fixed():
    rows = [("t", "a", 0, 0.1), ("t", "b", 0, 0.3), ("t", "a", 1, 0.2), ("t", "b", 1, 0.6), ("t", "b", 2, 0.9),
            ("u", "a", 0, 0.5), ("u", "b", 0, 0.6), ("u", "a", 1, 0.5), ("u", "b", 1, 0.7),
            ("u", "c", 0, 0.7)]  # fmt: skip
    runs = pd.DataFrame(rows, columns=["task", "arm", "seed", "improvement"])
    of_task, over, better = summaries(by_task(runs, "improvement"), controls=["b", "c"])
    assert of_task.loc[1].to_dict() == {
        "Task": "t", "Arm": "b", "Seeds": "3", "Mean": "60.0 [-14.5, 134.5]",
        "Less a": "+30.0 [-97.1, +157.1]", "In words": "not told apart",
    }  # fmt: skip
    # By seed, the means over tasks are 15 and 30; c is not on both tasks.
    assert over.values.tolist() == [["b", "+22.5 [-72.8, +117.8]", "not told apart"]]
    assert better["Better control"].tolist() == ["b", "c"]
