"""Weighted tardiness on one machine against plain simulation, enumeration and a case with a known optimum."""

import itertools

import numpy as np
import pytest

from atlas_gym.tasks.dispatching import Dispatching
from tests.atlas_gym.tasks.in_process import judge_in_process

SMALL = Dispatching(jobs=6, count=4)


def instances(task):
    return list(task.instances(task._stream("instances")))


def scores(name, task=SMALL):
    return judge_in_process(Dispatching.programs[name].program, task).traces["scores"]


def score_of(jobs, order):
    now = cost = 0.0
    for j in order:
        now += jobs.processing_time[j]
        cost += jobs.weight[j] * max(0.0, now - jobs.due[j])
    return max(SMALL.floor, -cost / (jobs.weight.sum() * jobs.processing_time.sum()))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("start", lambda jobs, j: jobs.due[j]),
        ("scratch", lambda jobs, j: j),
        ("wspt", lambda jobs, j: -jobs.weight[j] / jobs.processing_time[j]),
    ],
)
def test_rules_that_never_change_their_mind_do_the_jobs_sorted(name, key):
    expected = [
        score_of(jobs, sorted(range(6), key=lambda j, of=jobs: key(of, j))) for jobs in instances(SMALL)
    ]
    np.testing.assert_allclose(scores(name), expected, rtol=1e-12)


def test_nothing_is_better_than_the_best_order():
    best = [max(score_of(jobs, o) for o in itertools.permutations(range(6))) for jobs in instances(SMALL)]
    for name in Dispatching.programs:
        assert (scores(name) <= np.array(best) + 1e-12).all()


def test_smiths_rule_is_best_where_everything_is_late():
    """All due at 0: the sum of weighted completion times, which Smith's rule makes smallest."""
    task = Dispatching(jobs=6, count=3, tightness=1.0, spread=0.0)
    best = [max(score_of(jobs, o) for o in itertools.permutations(range(6))) for jobs in instances(task)]
    np.testing.assert_allclose(scores("wspt", task), best, rtol=1e-12)
    np.testing.assert_allclose(scores("apparent_tardiness", task), best, rtol=1e-12)


def test_experts_come_in_the_order_that_the_gallery_shows():
    mean = {name: scores(name, Dispatching()).mean() for name in Dispatching.programs}
    assert mean["scratch"] < mean["start"] < mean["wspt"] < mean["covert"]
    assert mean["apparent_tardiness"] > 0.35 * mean["start"]
    simple = "def priority(processing_time, weight, due, now):\n    return -due - processing_time\n"
    assert 0.5 * mean["start"] > judge_in_process(simple, Dispatching()).score > mean["start"]


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_jobs_follow_the_law_in_both_splits(split):
    jobs = instances(Dispatching(jobs=500, count=4, split=split))
    times = np.concatenate([j.processing_time for j in jobs])
    weights = np.concatenate([j.weight for j in jobs])
    due = np.concatenate([j.due / j.processing_time.sum() for j in jobs])
    assert (times.min(), times.max()) == (1, 100)
    assert times.mean() == pytest.approx(50.5, abs=4)
    assert weights.mean() == pytest.approx(5.5, abs=0.8)
    assert due.mean() == pytest.approx(0.4, abs=0.03)
    assert 0.09 < due.min() < due.max() < 0.71
