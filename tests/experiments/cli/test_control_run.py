"""A run with its frozen control from the command to its pictures, on several instances, killed in between."""

from dataclasses import replace

from atlas_gym.experiments.cli import main_job
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.words import said
from atlas_gym.trainers.loop.control import FOLDER
from atlas_gym.trainers.loop.settings import Instance
from tests.trainers.whole_run import config, menu

assert config, menu  # fixtures


def test_a_run_ends_with_its_control_two_pictures_and_words(config, tmp_path, monkeypatch, capsys):
    instances = (Instance(), Instance({"noise": 0.5}))
    both = replace(config, control="frozen", instances=instances, rounds=2, phase_every=1)
    folder = tmp_path / "run"

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(main_job, "_run_control", dies)
        assert main_job.begin(both, folder) == main_job.EXIT_INTERRUPTED
    assert main_job.begin(both, folder) == 0
    run, control = read_run(folder), read_run(folder / FOLDER)
    assert (folder / "learning.png").stat().st_size > 10_000
    assert len(run.candidates) == len(control.candidates)
    written, same = (list(own.everything()) for own in (run, control))
    assert [c for c in written if c.round <= 1] == [c for c in same if c.round <= 1]
    assert not control.phases
    assert (run.instances, control.instances) == (2, 2)
    words = said(run)
    assert "After phase 1, on 2 instances that no phase saw" in words
    printed = " ".join(capsys.readouterr().out.split())
    assert "The frozen control" in printed
    assert "noise 0.5" in printed
    assert " ".join(words.split())[:60] in printed
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "What tuning changed" in page

    assert main_job.begin(replace(both, rounds=3), folder) == 0  # more rounds are the control's as well
    longer = [list(read_run(place).everything()) for place in (folder, folder / FOLDER)]
    assert len(longer[0]) == len(longer[1]) > len(run.candidates)
    assert longer[1][: len(same)] == same
