"""What tuning changed, in words: a run against its frozen control, and base model against tuned policy."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.figures import as_png, best_gains, draw_learning
from atlas_gym.experiments.report.words import exam_in_words, exam_table, search_in_words, verdict
from atlas_gym.trainers.loop.exam import BASE, learned


def run(*scores, exams=None):
    """Rounds of one candidate on each of two islands with an instance of their own."""
    flat = [score for pair in scores for score in pair]
    rows = pd.DataFrame(
        {"round": i // 2, "island": i % 2, "origin": "agent", "status": "ok", "score": s, "new": True}
        for i, s in enumerate(flat)
    )  # fmt: skip
    return RunData("run", Path(), {}, rows, rows, (), (), exams or {}, (), {}, (), (), instances=2)


FROZEN = run((-1.0, -2.0), (-0.9, -1.9), (-0.8, -1.8))


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ((-0.4, -1.39), ("tuned -0.8950 against frozen -1.3000: difference +0.4050", "tuning found better programs",
                         "with 0.50 of its programs")),  # 3 of 6
        ((-0.9, -1.7), ("which chance explains",)),
        ((-1.0, -2.0), ("tuning found worse programs. The tuned run never reached",)),
    ],
)  # fmt: skip
def test_the_search_is_told_by_its_interval_over_instances(scores, found):
    said = search_in_words(run((-1.0, -2.0), scores, scores), FROZEN)
    assert all(part in said for part in found)


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


def test_the_exam_in_words_table_and_picture():
    found = run((-1.0, -2.0), exams=exams((4, 4, 4, 4), (7, 6, 7, 8)))
    text = exam_in_words(found.exams)
    assert "After phase 1, on 4 instances that no phase saw (4 prompts, 10 samples each)" in text
    assert "higher: valid, of all samples (0.400 → 0.700)" in text
    table = exam_table(found).set_index("Measure")
    assert table.loc["valid, of all samples", "Tuned"] == "0.700"
    assert as_png(draw_learning(found)).startswith("data:image/png;base64,iVBOR")
    assert exam_in_words({}) == ""
    assert draw_learning(run((-1.0, -2.0))) is None


def test_the_best_gain_of_n_samples_counts_only_what_improves():
    def sample(gain, passed=True, is_copy=False):
        return {"passed": passed, "is_copy": is_copy, "program_key": "k", "gain": gain}

    answers = [
        {"instance": 3, "samples": [sample(-0.1), sample(0.2), sample(0.1)]},
        {"instance": 3, "samples": [sample(None, passed=False), sample(0.4, is_copy=True), sample(0.6)]},
        {"instance": 5, "samples": [sample(0.5), sample(0.0), sample(0.0)]},
    ]
    assert best_gains(answers) == pytest.approx(np.array([[0.0, 0.1, 0.4], [0.5, 0.5, 0.5]]))
