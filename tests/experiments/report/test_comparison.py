"""Curves and bands of several runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from atlas_gym.experiments.report.comparison import Group, band, group_runs
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.selection import Census


@pytest.fixture(scope="module")
def runs(several_runs):
    return [read_run(folder) for folder in several_runs]


def test_the_best_curve_rises_and_ends_with_the_last_evaluation(runs):
    curve = runs[0].census.curve
    evaluations, scores = zip(*curve, strict=True)
    assert list(evaluations) == sorted(set(evaluations))
    assert list(scores[:-1]) == sorted(set(scores[:-1]))
    assert scores[-1] == runs[0].best.score
    assert evaluations[-1] == sum(c.duplicate_of is None for c in runs[0].candidates)


def test_runs_that_differ_in_their_seed_are_one_group(runs):
    assert [(g.label, len(g.runs)) for g in group_runs(runs)] == [("atlas", 3), ("evotune", 3)]


def test_groups_of_one_method_are_told_apart_by_what_differs(runs):
    other = replace(runs[0], config={**runs[0].config, "phase": {**runs[0].config["phase"], "beta": 0.4}})
    labels = [g.label for g in group_runs([runs[0], other, runs[3]])]
    assert labels == ["atlas, phase.beta=0.1", "atlas, phase.beta=0.4", "evotune"]


def test_what_differs_beyond_a_few_settings_tells_groups_apart_too(runs):
    def differing(*values):
        return replace(runs[0], config={"method": "search", **dict(zip("abcde", values, strict=True))})

    groups = group_runs([differing(1, 1, 1, 1, 1), differing(2, 2, 2, 2, 1), differing(2, 2, 2, 2, 2)])
    assert [g.label for g in groups] == [
        "search, a=1, b=1, c=1, d=1", "search, a=2, b=2, c=2, d=2, e=1", "search, a=2, b=2, c=2, d=2, e=2"
    ]  # fmt: skip


def test_the_band_is_students_interval_of_the_mean(runs):
    group = group_runs(runs)[0]
    result = band(group)
    end = result.evaluations[-1]
    assert end == min(run.census.curve[-1][0] for run in group.runs)
    finals = np.array([[s for x, s in run.census.curve if x <= end][-1] for run in group.runs])
    low, high = stats.t.interval(0.95, 2, loc=finals.mean(), scale=stats.sem(finals))
    assert result.mean[-1] == pytest.approx(finals.mean())
    assert (result.low[-1], result.high[-1]) == (pytest.approx(low), pytest.approx(high))


def test_one_run_has_no_band_and_two_have_their_range(runs):
    assert band(Group("x", (runs[0],))).low == []
    two = band(Group("x", (runs[0], runs[1])))
    assert all(low <= mean <= high for low, mean, high in zip(two.low, two.mean, two.high, strict=True))
    assert "range" in two.meaning
    assert band(Group("x", (replace(runs[0], candidates=(), census=Census()),))) is None
