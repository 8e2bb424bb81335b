"""A run beside its controls in words, and base model against tuned policy."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from atlas_gym.experiments.report.data import RunData, read_run
from atlas_gym.experiments.report.figures import as_png, draw_learning
from atlas_gym.experiments.report.words import exam_table, said, verdict
from atlas_gym.trainers.loop.exam import BASE, learned
from tests.agents.records import record
from tests.experiments.report.synthetic import Layout, make_run


def run(*scores, exams=None):
    """Rounds of one candidate on each of a few islands with an instance of their own."""
    rows = pd.DataFrame(
        {"round": round_, "island": i, "origin": "agent", "status": "ok", "score": s, "new": True}
        for round_, own in enumerate(scores)
        for i, s in enumerate(own)
    )  # fmt: skip
    return RunData(
        "run", Path(), {}, rows, rows, (), (), exams or {}, (), {}, (), (), instances=len(scores[0])
    )


def test_the_curve_is_the_mean_of_the_instances_best():
    numbers, scores = zip(*run((-1.0, -2.0), (-0.9, -1.9), (-0.8, -1.8)).curve, strict=True)
    assert scores == pytest.approx([-1.5, -1.45, -1.4, -1.35, -1.3])
    assert numbers == (2, 3, 4, 5, 6)


def found(*scores):
    """A run whose best programs have these scores, an instance each."""
    ends = tuple((record(score=-9.0, island=i), record(score=s, island=i)) for i, s in enumerate(scores))
    return replace(run(scores), ends=ends)


def beside(own, **others):
    """The run with these controls."""
    vars(own)["controls"] = {name.replace("_", "-"): other for name, other in others.items()}
    return own


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ((-0.4, -0.5, -0.6), "the run is ahead: +0.5000 ± 0.0000 (95 %, 3 instances)"),
        ((-1.5, -1.6, -1.7), "the run is behind: -0.6000"),
        ((-0.4, -1.9, -1.0), "the run may differ by chance: -0.1000 ±"),
    ],
)
def test_a_run_is_told_from_its_control_by_their_interval_over_instances(scores, says):
    words = said(beside(found(*scores), numbers_alone=found(-0.9, -1.0, -1.1)))
    assert words.startswith("Best program of each instance, training seeds: ")
    assert f"numbers-alone: -1.0000; {says}" in words


def test_what_tuning_adds_is_told_from_two_searches_on_unseen_instances():
    searches = {"unseen_tuned": found(-0.4, -0.5, -0.6), "unseen_base": found(-0.9, -1.0, -1.1)}
    own = beside(found(-0.4, -0.5, -0.6), **searches)
    (line,) = said(own).splitlines()
    assert "tuned -0.5000, base model -1.0000; tuned is ahead: +0.5000" in line
    assert as_png(draw_learning(own)).startswith("data:image/png;base64,iVBOR")
    assert said(found(-0.4, -0.5)) == ""


def test_controls_are_read_from_the_runs_folder(tmp_path):
    folder = make_run(tmp_path / "run", Layout(rounds=2, instances=3))
    make_run(
        folder / "controls" / "numbers-alone", Layout(method="numbers-alone", seed=1, rounds=2, instances=3)
    )
    own = read_run(folder)
    assert list(own.controls) == ["numbers-alone"]
    assert "numbers-alone: " in said(own)
    assert "held-out seeds" in said(own)


def test_a_control_that_is_under_way_is_not_compared(tmp_path):
    folder = make_run(tmp_path / "run", Layout(rounds=2, instances=3))
    make_run(folder / "controls" / "numbers-alone", Layout(rounds=2, instances=3), finished=False)
    own = read_run(folder)
    assert (own.confirmed, own.controls["numbers-alone"].confirmed) == (True, False)
    assert said(own) == ""


def answers(valid):
    """Four instances with a prompt each; by instance, how many of ten samples are valid copies."""
    samples = [
        [{"passed": j < n, "is_copy": True, "program_key": "k", "gain": 0.0 if j < n else None} for j in range(10)]
        for n in valid
    ]  # fmt: skip
    return {"answers": [{"instance": i, "site": "x =", "samples": own} for i, own in enumerate(samples)]}


def exams(base, tuned):
    return {BASE: answers(base), 1: answers(tuned)}


@pytest.mark.parametrize(
    ("tuned", "word"),
    [((7, 6, 7, 8), "higher"), ((0, 1, 1, 0), "lower"), ((3, 5, 4, 4), "cannot be told apart")],
)
def test_the_exams_interval_chooses_the_word(tuned, word):
    (measures,) = learned(exams((4, 4, 4, 4), tuned)).values()
    found = measures["validity"]
    assert verdict(found).startswith(word)
    if word == "cannot be told apart":  # it says what could have been; t(3) at .975 and .8: 3.182 and 0.978
        assert found.detectable == pytest.approx(found.difference.half_width * (1 + 0.978 / 3.182), rel=1e-3)
        assert f"{found.detectable:.2g}" in verdict(found)
    assert verdict(measures["quality .01"]).startswith("no interval")  # nothing to count


def test_the_exam_is_a_table():
    found = run((-1.0, -2.0), exams=exams((4, 4, 4, 4), (7, 6, 7, 8)))
    row = exam_table(found).set_index("Measure").loc["valid, of all samples"]
    assert list(row[["After phase", "Base", "Tuned", "In words"]]) == [1, "0.400", "0.700", "higher"]
    assert draw_learning(found) is None
