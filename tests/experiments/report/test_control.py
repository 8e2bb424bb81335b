"""A run against its frozen control: paired by instance, and counted in programs."""

import math
from pathlib import Path

import numpy as np
import pytest

from experiments.report.control import against_frozen, in_words
from experiments.report.data import RunData
from experiments.report.learning_figure import best_gains
from experiments.report.selection import select
from tests.trainers.samples import RECORD


def run(*scores):
    """Rounds of one candidate on each of two islands with an instance of their own."""
    flat = [score for pair in scores for score in pair]
    rows = [(i, i // 2, i % 2, None, score, None) for i, score in enumerate(flat)]
    census, _ = select(rows, instances=2)
    return RunData("run", {}, Path(), census, {}, (RECORD,), (), (), {}, (), {}, ())


FROZEN = run((-1.0, -2.0), (-0.9, -1.9), (-0.8, -1.8))


def test_the_curve_is_the_mean_of_the_instances_best():
    assert [score for _, score in FROZEN.census.curve] == pytest.approx([-1.5, -1.45, -1.4, -1.35, -1.3])
    assert [number for number, _ in FROZEN.census.curve] == [2, 3, 4, 5, 6]


def test_a_run_that_is_better_everywhere_is_said_to_be():
    found = against_frozen(run((-1.0, -2.0), (-0.4, -1.39), (-0.4, -1.39)), FROZEN)
    assert found.difference.mean == pytest.approx((0.4 + 0.41) / 2)
    assert found.share == 3 / 6
    assert "tuning found better programs" in in_words(found)
    assert "0.50 of its programs" in in_words(found)


def test_a_difference_that_chance_explains_is_said_to_be_one():
    found = against_frozen(run((-1.0, -2.0), (-0.9, -1.7), (-0.9, -1.7)), FROZEN)
    assert "which chance explains" in in_words(found)


def test_a_run_that_stays_behind_never_reaches_the_frozen_one():
    found = against_frozen(run((-1.0, -2.0), (-1.0, -2.0), (-1.0, -2.0)), FROZEN)
    assert math.isinf(found.share)
    assert "tuning found worse programs" in in_words(found)
    assert "never reached" in in_words(found)


def test_the_best_gain_of_n_samples_counts_only_what_improves():
    def sample(gain, passed=True, is_copy=False):
        return {"passed": passed, "is_copy": is_copy, "program_key": "k", "gain": gain}

    answers = [
        {"instance": 3, "samples": [sample(-0.1), sample(0.2), sample(0.1)]},
        {"instance": 3, "samples": [sample(None, passed=False), sample(0.4, is_copy=True), sample(0.6)]},
        {"instance": 5, "samples": [sample(0.5), sample(0.0), sample(0.0)]},
    ]
    assert best_gains(answers) == pytest.approx(np.array([[0.0, 0.1, 0.4], [0.5, 0.5, 0.5]]))
