"""A run with its controls from the command to its pictures, on several instances, killed in between."""

import re
from dataclasses import replace

from atlas_gym.experiments.cli import main_job
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.tables import run_row
from atlas_gym.experiments.report.words import counted, said
from atlas_gym.trainers.loop.control import FOLDER
from atlas_gym.trainers.loop.settings import Instance
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.whole_run import config, menu

assert config, menu  # fixtures


def test_a_run_ends_with_its_controls_two_pictures_and_words(config, tmp_path, monkeypatch, capsys):
    instances = (Instance(), Instance({"noise": 0.5}))
    asked = ("frozen", "numbers-alone", "unseen")
    taught = replace(config, start="inlined", teaching=True, taught_per_prompt=6)
    both = replace(taught, controls=asked, instances=instances, rounds=2, phase_every=1, max_phases=1)
    folder = tmp_path / "run"

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(main_job, "open_control", dies)
        assert main_job.begin(both, folder) == main_job.EXIT_INTERRUPTED
    rounds = capsys.readouterr().out
    assert main_job.begin(both, folder) == 0
    run = read_run(folder)
    assert list(run.controls) == ["frozen", "numbers-alone", "unseen-tuned", "unseen-base"]
    assert (folder / "learning.png").stat().st_size > 10_000
    frozen = run.controls["frozen"]
    written, same = (list(own.everything()) for own in (run, frozen))
    assert [c for c in written if c.id >= 0 and c.round <= 1] == [c for c in same if c.round <= 1]
    assert not frozen.phases
    assert (run.instances, frozen.instances) == (2, 2)
    words = said(run)
    assert words.startswith("Best program of each instance, held-out seeds:")
    assert "The agent alone on instances that no phase saw" in words
    printed = " ".join(capsys.readouterr().out.split())
    assert "Control 2 of 4: numbers-alone" in printed
    assert "noise 0.5" in printed
    assert " ".join(words.split())[:60] in printed
    assert (folder / "best_program.py").read_text().startswith(f"# Written by: {run.best.origin}. Score ")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "numbers-alone" in page

    # Console, report, csv and store count alike.
    counts = run.counts
    assert counts["drawn"] == sum(map(int, re.findall(r"of (\d+) drawn", rounds)))
    assert 0 < counts["taught"] < counts["evaluated"] <= counts["smoke-tested"] + counts["taught"]
    with RunStore.open_readonly(folder) as store:
        assert counts["evaluated"] == store.candidate_counts()["evaluated"] == run_row(run)["evaluations"]
    assert counted(run) in printed
    assert counted(run) in page
    assert run.by_hand > run.curve[0][1]

    assert main_job.begin(replace(both, rounds=3), folder) == 0  # more rounds are the control's as well
    longer = list(read_run(folder / FOLDER / "frozen").everything())
    assert len(longer) > len(same)
    assert longer[: len(same)] == same
