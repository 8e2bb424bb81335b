"""The command: files of one run and of several, of a run under way, and of what is no run."""

import json
import re
from pathlib import Path

import pytest
import yaml

from atlas_gym.experiments.report.__main__ import main
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.payload import finite
from atlas_gym.experiments.report.pictures import draw_pictures
from atlas_gym.experiments.report.write import default_output, read_runs
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import ATTACK, Layout, make_run


def data_of(path):
    page = path.read_text(encoding="utf-8")
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1)
    )


def test_one_runs_report_holds_all_of_it(run_folder, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main([str(run_folder), "--output", str(page), "--no-pictures"]) == 0
    assert str(page) in capsys.readouterr().out
    (run,) = data_of(page)["runs"]
    stored = read_run(run_folder)
    assert run["candidates"]["id"] == [c.id for c in stored.candidates]
    texts = run["programs"]
    for i, record in enumerate(stored.candidates):
        lines = texts["texts"][run["candidates"]["program"][i]]
        assert "\n".join(texts["lines"][n] for n in lines) == record.program
    assert run["best"]["id"] == stored.best.id
    assert run["best"]["gap"].startswith("-0.0025 (chance: up to 0.0130)")
    assert [p["promoted"] for p in run["phases"]] == [p["promoted"] for p in stored.phases]
    assert ATTACK not in page.read_text(encoding="utf-8")
    assert (tmp_path / "tables" / "phases.md").exists()


def test_several_runs_share_one_report(several_runs, tmp_path):
    page = tmp_path / "report.html"
    assert main([*map(str, several_runs), "--output", str(page), "--no-pictures"]) == 0
    data = data_of(page)
    assert len(data["runs"]) == 6
    assert [(band["label"], band["runs"]) for band in data["bands"]] == [("atlas", 3), ("evotune", 3)]


def test_figures_are_written_as_pdf_and_png(several_runs, tmp_path):
    two = [str(several_runs[0]), str(several_runs[-1])]
    assert main([*two, "--output", str(tmp_path / "report.html"), "--no-pictures", "--figures"]) == 0
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"comparison.pdf", "comparison.png", "gate-atlas-1.pdf", "scores-evotune-3.png"} <= figures
    assert (tmp_path / "figures" / "comparison.pdf").read_bytes().startswith(b"%PDF")


def test_a_run_under_way_is_reported_as_far_as_it_is(tmp_path):
    with RunStore(tmp_path / "young"):
        assert main([str(tmp_path / "young")]) == 0
    folder = make_run(tmp_path / "half", Layout(rounds=3), finished=False)
    assert main([str(folder), "--no-pictures"]) == 0
    (run,) = data_of(folder / "report.html")["runs"]
    assert (run["rounds"], run["plannedRounds"], run["confirmed"]) == (3, 12, False)
    assert run["best"]["heldOut"] is None


def test_what_is_no_run_is_named(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "holds no run" in capsys.readouterr().err


def test_runs_of_equal_name_are_told_apart(tmp_path):
    folders = [make_run(tmp_path / parent / "s0", Layout(rounds=1)) for parent in ("a", "b")]
    assert [run.name for run in read_runs(folders)] == ["a/s0", "b/s0"]
    assert default_output(folders) == tmp_path / "a" / "report" / "report.html"
    assert default_output(folders[:1]) == folders[0] / "report.html"


def test_the_environment_draws_the_first_and_the_best_program(run_folder):
    pictures = draw_pictures(read_run(run_folder))
    assert [picture.title.split(" (")[0] for picture in pictures] == ["Initial program", "Best program"]
    assert all(picture.png.startswith("iVBOR") and picture.text for picture in pictures)


def test_of_a_task_that_drifts_it_says_which_is_drawn(tmp_path):
    folder = make_run(tmp_path / "run", Layout(rounds=1))
    settings = yaml.safe_load((folder / "config.yaml").read_text()) | {"drift": [{}, {"horizon": 100}]}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    titles = [picture.title for picture in draw_pictures(read_run(folder))]
    assert all(title.endswith(", on the first of the run's tasks") for title in titles)


def test_a_picture_that_cannot_be_drawn_is_a_sentence(tmp_path):
    folder = make_run(tmp_path / "run", Layout(env="ATLAS-Unknown-v0", rounds=1))
    (picture,) = draw_pictures(read_run(folder))
    assert picture.png == ""
    assert picture.text.startswith("Not drawn")


@pytest.mark.parametrize("constants", ["{horizon: 1000000000, replicas: 1000}", "[1, 2]"])
def test_a_picture_takes_no_memory_that_a_stranger_asks_for(tmp_path, constants):
    folder = make_run(tmp_path / "run", Layout(rounds=1))
    settings = yaml.safe_load((folder / "config.yaml").read_text()) | {"env_args": yaml.safe_load(constants)}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (picture,) = draw_pictures(read_run(folder))
    assert picture.png == ""
    assert picture.text.startswith("Not drawn")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_in_json_becomes_null(value):
    assert finite({"a": [value, (1.5, {"b": value})]}) == {"a": [None, [1.5, {"b": None}]]}


def test_a_full_disk_is_named_and_leaves_no_half_page(run_folder, tmp_path, monkeypatch):
    def fill(path, *_, **__):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(OSError, match=r"No space left on device: .*report\.html"):
        main([str(run_folder), "--output", str(tmp_path / "report.html"), "--no-pictures"])
    assert list(tmp_path.iterdir()) == []
