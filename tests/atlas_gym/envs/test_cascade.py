from concurrent.futures import Future
from dataclasses import replace

import pytest

from atlas_gym.envs.cascade import Cascade, evaluate_in_stages
from atlas_gym.evaluation import Evaluation, Pool, PoolStatistics, Status


class FakePool(Pool):
    """Scores programs from a table by task; None stands for a failure."""

    statistics = PoolStatistics()

    def __init__(self, table):
        self.table, self.calls = table, []

    def submit(self, program, task):
        self.calls.append((program, task))
        score = self.table[task][program]
        future = Future()
        future.set_result(Evaluation(Status.ERROR if score is None else Status.OK, score))
        return future

    def close(self):
        """Nothing to close."""


def run(short, full, keep=0.5):
    programs = list(short)
    pool = FakePool({"short": short, "full": full})
    tasks = ["short"] * len(programs), ["full"] * len(programs)
    evaluations, went_on = evaluate_in_stages(pool, programs, *tasks, Cascade(keep))
    screened = [e.status is Status.SCREENED for e in evaluations]
    assert screened == [short[p] is not None and not on for p, on in zip(programs, went_on, strict=True)]
    return [e.score for e in evaluations], went_on, pool.calls


def test_only_the_best_share_is_evaluated_in_full():
    scores, went_on, calls = run({"a": -0.4, "b": -0.1, "c": -0.2, "d": -0.3}, {"b": -0.15, "c": -0.12})
    assert went_on == [False, True, True, False]
    assert scores == [None, -0.15, -0.12, None]
    assert calls[4:] == [("b", "full"), ("c", "full")]


def test_a_short_score_is_no_score():
    scores, went_on, _ = run({"a": -0.10, "b": -0.11}, {"a": -0.5}, keep=0.5)
    assert went_on == [True, False]
    assert scores == [-0.5, None]


def test_programs_of_different_tasks_are_not_compared():
    table = {"short": {"a": -0.9, "b": -0.8, "c": -0.1}, 1: {"b": -0.7}, 2: {"c": -0.2}}
    pool = FakePool(table)
    evaluations, went_on = evaluate_in_stages(pool, "abc", ["short"] * 3, [1, 1, 2], Cascade(0.5))
    assert went_on == [False, True, True]  # though c did better than both of the other task
    assert [e.score for e in evaluations] == [None, -0.7, -0.2]


def test_failures_do_not_count_into_the_share():
    scores, went_on, calls = run({"a": None, "b": -0.3, "c": -0.2, "d": None}, {"c": -0.25})
    assert went_on == [False, False, True, False]
    assert scores == [None, None, -0.25, None]
    assert len(calls) == 5


def test_a_program_may_still_fail_in_full():
    scores, went_on, _ = run({"a": -0.1, "b": -0.2}, {"a": None})
    assert went_on == [True, False]
    assert scores == [None, None]


def test_nothing_goes_on_when_everything_failed():
    assert run({"a": None, "b": None}, {})[:2] == ([None, None], [False, False])


def test_ties_go_to_the_earlier_and_the_share_is_rounded_up():
    assert run({"a": -0.1, "b": -0.1, "c": -0.1}, {"a": -0.1, "b": -0.1})[1] == [True, True, False]


def test_a_share_that_is_a_whole_number_of_programs_is_not_rounded_up():
    scores = {f"p{i}": -i / 100 for i in range(100)}
    assert sum(run(scores, scores, keep=0.07)[1]) == 7


@pytest.mark.parametrize("keep", [0.0, 1.1, -1.0])
def test_shares_outside_are_refused(keep):
    with pytest.raises(ValueError, match="share"):
        replace(Cascade(), keep=keep)
