"""A run against its frozen control: paired by instance, and counted in programs."""

from pathlib import Path

import numpy as np
import pytest

from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.learning import best_gains, search_in_words
from atlas_gym.experiments.report.selection import select
from tests.trainers.samples import RECORD


def run(*scores):
    """Rounds of one candidate on each of two islands with an instance of their own."""
    flat = [score for pair in scores for score in pair]
    rows = [(i, i // 2, i % 2, None, score, None) for i, score in enumerate(flat)]
    census, _ = select(rows, instances=2)
    return RunData("run", {}, Path(), census, {}, (RECORD,), (), (), {}, (), {}, (), ())


FROZEN = run((-1.0, -2.0), (-0.9, -1.9), (-0.8, -1.8))


def test_the_curve_is_the_mean_of_the_instances_best():
    assert [score for _, score in FROZEN.census.curve] == pytest.approx([-1.5, -1.45, -1.4, -1.35, -1.3])
    assert [number for number, _ in FROZEN.census.curve] == [2, 3, 4, 5, 6]


def test_a_run_that_is_better_everywhere_is_said_to_be():
    found = search_in_words(run((-1.0, -2.0), (-0.4, -1.39), (-0.4, -1.39)), FROZEN)
    assert "tuned -0.8950 against frozen -1.3000: difference +0.4050" in found  # the mean of 0.4 and 0.41
    assert "tuning found better programs" in found
    assert "0.50 of its programs" in found  # 3 of 6


def test_a_difference_that_chance_explains_is_said_to_be_one():
    found = search_in_words(run((-1.0, -2.0), (-0.9, -1.7), (-0.9, -1.7)), FROZEN)
    assert "which chance explains" in found


def test_a_run_that_stays_behind_never_reaches_the_frozen_one():
    found = search_in_words(run((-1.0, -2.0), (-1.0, -2.0), (-1.0, -2.0)), FROZEN)
    assert "tuning found worse programs" in found
    assert "never reached" in found


def test_the_best_gain_of_n_samples_counts_only_what_improves():
    def sample(gain, passed=True, is_copy=False):
        return {"passed": passed, "is_copy": is_copy, "program_key": "k", "gain": gain}

    answers = [
        {"instance": 3, "samples": [sample(-0.1), sample(0.2), sample(0.1)]},
        {"instance": 3, "samples": [sample(None, passed=False), sample(0.4, is_copy=True), sample(0.6)]},
        {"instance": 5, "samples": [sample(0.5), sample(0.0), sample(0.0)]},
    ]
    assert best_gains(answers) == pytest.approx(np.array([[0.0, 0.1, 0.4], [0.5, 0.5, 0.5]]))
