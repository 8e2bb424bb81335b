"""A study is run, survives a run that fails, and writes what the finished ones came to."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from atlas_gym.experiments.report.table_formats import as_csv
from atlas_gym.experiments.studies.__main__ import main
from atlas_gym.experiments.studies.plan import DONE, Arm, Plan, do_runs, read_plan
from atlas_gym.experiments.studies.rows import collect
from atlas_gym.experiments.studies.write import all_tables, known_runs, read_data, write_study
from tests.experiments.report.synthetic import Layout, make_run


def test_a_failed_run_is_reported_and_its_log_named(tmp_path):
    plan = Plan(
        "x", "ATLAS-Bandit-v0", {"a": Arm(settings={"model": str(tmp_path / "no model")})}, seeds=(0,)
    )
    lines: list[str] = []
    failed = do_runs(plan, tmp_path / "runs", 1, lines.append)
    assert [run.name for run in failed] == ["a-named-s0"]
    assert "failed with exit code" in lines[-1]
    assert "no model" in (tmp_path / "runs" / "a-named-s0" / "log.txt").read_text()
    assert not (tmp_path / "runs" / "a-named-s0" / DONE).exists()


def test_an_arm_may_be_called_by_a_fraction(tmp_path):
    plan = Plan("x", "ATLAS-Bandit-v0", {"1/2": Arm(settings={"rounds": 0})}, seeds=(0,))
    lines: list[str] = []
    assert [run.name for run in do_runs(plan, tmp_path, 1, lines.append)] == ["1/2-named-s0"]
    assert lines[0] == "1/2-named-s0: begins"


@pytest.fixture
def study(tmp_path):
    plan = Plan(
        "x",
        "ATLAS-Bandit-v0",
        {"atlas": Arm(), "evotune": Arm("evotune")},
        seeds=(1, 2),
        settings={"rounds": 6},
        about="What is asked.",
    )
    for run in plan.runs()[:3]:
        folder = make_run(tmp_path / run.name, Layout(method=run.arm, seed=run.seed, rounds=6))
        (folder / DONE).touch()
    return plan, tmp_path


def test_finished_runs_become_data_tables_and_a_figure(study, tmp_path):
    plan, folder = study
    paths = write_study(plan, folder, tmp_path / "out")
    with open(tmp_path / "out" / "runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["arm"], row["seed"]) for row in rows] == [("atlas", "1"), ("evotune", "1"), ("atlas", "2")]
    page = (tmp_path / "out" / "README.md").read_text()
    assert "\n\nWhat is asked.\n\n3 of 4 runs finished" in page
    assert f"\natlas study {plan.name}\n" in page
    assert "**Best program on held-out seeds**" in page
    assert {Path(path).suffix for path in paths} == {".csv", ".md", ".png", ".pdf"}


def test_the_page_names_the_plan_as_it_was_given(study, tmp_path, capsys):
    _, folder = study
    own = tmp_path / "own.yaml"
    own.write_text(
        "name: mine\nenv: ATLAS-Bandit-v0\narms: {atlas: {}, evotune: {method: evotune}}\nseeds: [1, 2]\n"
    )
    assert main([str(own), "--tables", "--runs", str(folder), "--output", str(tmp_path / "out")]) == 0
    assert f"\natlas study {own}\n" in (tmp_path / "out" / "README.md").read_text()


def test_conclusions_are_linked_and_never_printed(study, tmp_path):
    plan, folder = study
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "conclusions.md").write_text("Everything is better.")
    write_study(plan, folder, tmp_path / "out")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "(conclusions.md)" in page
    assert "Everything" not in page


def test_the_page_can_be_made_again_from_the_data(study, tmp_path):
    plan, folder = study
    write_study(plan, folder, tmp_path / "out")
    first = {p.name: p.read_text() for p in (tmp_path / "out").rglob("*") if p.suffix in (".md", ".csv")}
    write_study(plan, tmp_path / "nowhere", tmp_path / "out")
    again = {p.name: p.read_text() for p in (tmp_path / "out").rglob("*") if p.suffix in (".md", ".csv")}
    assert again == first


def test_a_study_goes_on_from_its_data_alone(study, tmp_path):
    plan, folder = study
    write_study(plan, folder, tmp_path / "whole")
    last = plan.runs()[2].name
    (folder / last).rename(tmp_path / "later")
    write_study(plan, folder, tmp_path / "out")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "later").rename(elsewhere / last)
    write_study(plan, elsewhere, tmp_path / "out", add=True)
    assert known_runs(tmp_path / "out") == {run.name for run in plan.runs()[:3]}
    for kind in (tmp_path / "whole").glob("*.csv"):
        assert (tmp_path / "out" / kind.name).read_text() == kind.read_text()


def test_nothing_of_an_earlier_study_stays(study, tmp_path):
    plan, folder = study
    write_study(plan, folder, tmp_path / "out")
    measures = "arm,start,seed,phase,measure,base,tuned,difference,half_width,instances\n"
    measures += "earlier,named,0,1,validity,0.1,0.9,0.8,0.1,4\nearlier,named,1,1,validity,0.1,0.9,0.8,0.1,4\n"
    (tmp_path / "out" / "measures.csv").write_text(measures)
    write_study(plan, tmp_path / "nowhere", tmp_path / "out")
    assert "| earlier |" in (tmp_path / "out" / "README.md").read_text()
    write_study(plan, folder, tmp_path / "out")
    assert "earlier" not in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("names", [(64, 0.1), ("None", "NA"), ("null", "1e3")])
def test_arms_may_be_called_by_numbers_and_by_nothing(tmp_path, names):
    plan = {"name": "x", "env": "ATLAS-Bandit-v0", "seeds": [1, 2], "arms": {name: {} for name in names}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(plan))
    plan = read_plan(tmp_path / "x.yaml")
    assert set(plan.arms) == set(map(str, names))
    for run in plan.runs():
        (make_run(tmp_path / run.name, Layout(seed=run.seed, rounds=6)) / DONE).touch()
    write_study(plan, tmp_path, tmp_path / "out")
    assert known_runs(tmp_path / "out") == {run.name for run in plan.runs()}
    write_study(plan, tmp_path / "nowhere", tmp_path / "out")
    assert all(f"| {name} | named | 2 |" in (tmp_path / "out" / "README.md").read_text() for name in names)


def test_a_full_disk_leaves_the_data_that_were_there(study, tmp_path, monkeypatch):
    plan, folder = study
    write_study(plan, folder, tmp_path / "out")
    data = {path: path.read_text() for path in (tmp_path / "out").glob("*.csv")}

    def fills_the_disk(_frame: object, path: Path, **_kwargs: object) -> None:
        Path(path).write_text("arm,st")
        raise OSError("no space left on device")

    monkeypatch.setattr("pandas.DataFrame.to_csv", fills_the_disk)
    with pytest.raises(OSError, match="no space"):
        write_study(plan, folder, tmp_path / "out")
    assert data == {path: path.read_text() for path in (tmp_path / "out").glob("*.csv")}


@pytest.mark.parametrize("damage", ["", "a,b\n1,2\n", "\0\0"])
def test_damaged_data_are_named(study, tmp_path, damage, capsys):
    plan, folder = study
    write_study(plan, folder, tmp_path / "out")
    (tmp_path / "out" / "runs.csv").write_text(damage)
    places = ["--runs", str(tmp_path / "nowhere"), "--output", str(tmp_path / "out")]
    assert main(["bandit", "--add", *places]) == 2
    said = capsys.readouterr().err
    assert f"The data in {tmp_path / 'out'} are damaged: put them back" in said


def test_a_damaged_run_is_named(study, tmp_path, capsys):
    _, folder = study
    plan = folder / "plan.yaml"
    plan.write_text("{name: x, env: ATLAS-Bandit-v0, arms: {atlas: {}}, seeds: [1]}")
    (folder / "atlas-named-s1" / "run.sqlite").write_text("no store")
    assert main([str(plan), "--tables", "--runs", str(folder), "--output", str(tmp_path / "out")]) == 2
    assert "run.sqlite cannot be read as a run store" in capsys.readouterr().err


def test_runs_whose_data_are_there_are_not_done_again(study, tmp_path):
    plan, _ = study
    lines: list[str] = []
    do_runs(plan, tmp_path / "elsewhere", 1, lines.append, {run.name for run in plan.runs()})
    assert lines == []


STUDIES = sorted((Path(__file__).parents[3] / "docs" / "study").iterdir())


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_the_committed_tables_are_those_of_the_committed_data(folder):
    tables = {f"{table.name}.csv": as_csv(table) for table in all_tables(read_data(folder))}
    assert tables == {path.name: path.read_text() for path in (folder / "tables").glob("*.csv")}


def test_tables_are_made_of_the_data_as_they_were_rounded(study, tmp_path, monkeypatch):
    plan, folder = study
    data = collect(plan, folder)
    data["runs"]["best_held_out"] = -0.00004999999999
    monkeypatch.setattr("atlas_gym.experiments.studies.write.collect", lambda *_: data)
    write_study(plan, folder, tmp_path / "out")
    assert "-0.0001" in (tmp_path / "out" / "tables" / "final_scores.csv").read_text()


def test_without_finished_runs_nothing_is_written(tmp_path):
    plan = Plan("x", "ATLAS-Bandit-v0", {"atlas": Arm()})
    assert write_study(plan, tmp_path, tmp_path / "out") == []
    assert not (tmp_path / "out").exists()


def test_finished_runs_are_not_run_again(study, tmp_path):
    plan, folder = study
    (folder / plan.runs()[3].name).mkdir()
    (folder / plan.runs()[3].name / DONE).touch()
    lines: list[str] = []
    assert do_runs(plan, folder, 1, lines.append) == []
    assert lines == []


def test_finished_runs_go_on_when_the_plan_has_more_rounds(tmp_path):
    # A method without a model, on a bandit that takes no time.
    settings = {
        "env_args": {"horizon": 60, "replicas": 1}, "rounds": 1, "held_out_seeds": 1, "workers": 1,
        "exploration": {"islands": 1, "samples": 4, "sites": 4},
    }  # fmt: skip
    plan = Plan("x", "ATLAS-Bandit-v0", {"a": Arm("numbers-alone")}, seeds=(0,), settings=settings)
    assert do_runs(plan, tmp_path, 1, print) == []
    longer = replace(plan, settings={**settings, "rounds": 2})
    lines: list[str] = []
    assert do_runs(longer, tmp_path, 1, lines.append) == []
    assert lines == ["a-named-s0: begins", "a-named-s0: done"]
    assert collect(longer, tmp_path)["runs"]["candidates"].tolist() == [8]
    assert do_runs(plan, tmp_path, 1, lines.append) == []
    assert len(lines) == 2


def test_settings_are_written_where_the_run_reads_them(tmp_path):
    plan = Plan("x", "ATLAS-Bandit-v0", {"a": Arm("search", {"rounds": 0})}, seeds=(3,))
    do_runs(plan, tmp_path, 1, lambda line: None)
    written = yaml.safe_load((tmp_path / "a-named-s3" / "settings.yaml").read_text())
    assert written["seed"] == 3
    assert "rounds must be at least 1" in (tmp_path / "a-named-s3" / "log.txt").read_text()


def test_where_nothing_has_ended_it_says_so(tmp_path, capsys):
    places = ["--runs", str(tmp_path / "runs"), "--output", str(tmp_path / "out")]
    assert main(["bandit", "--tables", *places]) == 1
    assert f"no run in {tmp_path / 'runs'} has ended" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
