"""Curves and bands of several runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from atlas_gym.experiments.report.comparison import Group, band, group_runs
from atlas_gym.experiments.report.data import read_run
from atlas_gym.trainers.store.store import RunStore


@pytest.fixture(scope="module")
def runs(several_runs):
    return [read_run(folder) for folder in several_runs]


def test_the_best_curve_rises_and_ends_with_the_last_evaluation(runs):
    evaluations, scores = zip(*runs[0].curve, strict=True)
    assert list(evaluations) == sorted(set(evaluations))
    assert list(scores[:-1]) == sorted(set(scores[:-1]))
    assert scores[-1] == runs[0].best.score
    with RunStore.open_readonly(runs[0].folder) as store:
        records = list(store.candidates())
    assert evaluations[-1] == sum(c.duplicate_of is None for c in records if c.origin != "seed")
    assert scores[0] == next(c.score for c in records if c.score is not None)


def test_runs_that_differ_in_their_seed_are_one_group_and_others_are_told_apart_by_what_differs(runs):
    assert [(g.label, len(g.runs)) for g in group_runs(runs)] == [("atlas", 3), ("evotune", 3)]
    other = replace(runs[0], config={**runs[0].config, "phase": {**runs[0].config["phase"], "beta": 0.4}})
    labels = [g.label for g in group_runs([runs[0], other, runs[3]])]
    assert labels == ["atlas, phase.beta=0.1", "atlas, phase.beta=0.4", "evotune"]


def test_the_band_is_students_interval_of_the_mean(runs):
    group = group_runs(runs)[0]
    result = band(group)
    end = result.evaluations[-1]
    assert end == min(run.curve[-1][0] for run in group.runs)
    finals = np.array([[s for x, s in run.curve if x <= end][-1] for run in group.runs])
    low, high = stats.t.interval(0.95, 2, loc=finals.mean(), scale=stats.sem(finals))
    assert result.mean[-1] == pytest.approx(finals.mean())
    assert (result.low[-1], result.high[-1]) == (pytest.approx(low), pytest.approx(high))


def test_one_run_has_no_band_and_two_have_their_range(runs):
    one = band(Group("x", (runs[0],)))
    assert list(one.low) == list(one.high) == list(one.mean)
    two = band(Group("x", (runs[0], runs[1])))
    assert np.all((two.low <= two.mean) & (two.mean <= two.high))
    assert "range" in two.meaning
    assert band(Group("x", (replace(runs[0], candidates=runs[0].candidates[:0]),))) is None
