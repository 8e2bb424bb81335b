"""What improves on the draw that chose it is scored again on others, with its parent; the smaller gain counts."""

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.evaluation import Evaluation, InfrastructureError, Status
from atlas_gym.trainers.data.redraws import Redraws
from tests.trainers.samples import RECORD

MARGIN = 0.01
PARENT = replace(RECORD, id=0, parent_id=None, program="parent", score=1.0, parent_score=None)
EDIT = replace(RECORD, id=1, parent_id=0, program="edit", score=1.5, parent_score=1.0, is_copy=False)
DRAWS = [SimpleNamespace(number=number, worst_score=-9.0) for number in range(3)]


class Pool:
    """Scores by a table of (program, draw); None fails, an error is the machine's."""

    def __init__(self, scores):
        self.scores, self.asked = scores, []

    def submit(self, program, task):
        self.asked.append((program, task.number))
        future: Future = Future()
        score = self.scores[program, task.number]
        if isinstance(score, Exception):
            future.set_exception(score)
        else:
            future.set_result(Evaluation(Status.ERROR if score is None else Status.OK, score))
        return future


def redraws(scores, draws=2):
    pool = Pool(scores)
    parents = {PARENT.id: PARENT}
    return pool, Redraws(pool, lambda record, draw: DRAWS[draw], parents.__getitem__, draws, MARGIN)


def table(edit, parent=(1.0, 1.0, 1.0)):
    return {("edit", i): score for i, score in enumerate(edit)} | {
        ("parent", i): score for i, score in enumerate(parent)
    }


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.lists(st.floats(-5, 5), min_size=3, max_size=3))
def test_the_gain_is_the_mean_over_the_draws_and_never_more_than_it_was(edit, parent):
    _, own = redraws(table(edit, parent), draws=3)
    (found,) = own.corrected([EDIT])
    mean = sum(a - b for a, b in zip(edit, parent, strict=True)) / 3
    assert found.gain == pytest.approx(min(0.5, mean))
    assert found == replace(EDIT, score=found.score)


def test_what_does_not_improve_is_not_run_again():
    pool, own = redraws({})
    others = [
        replace(EDIT, id=2, score=1.0 + MARGIN / 2),
        replace(EDIT, id=3, status="error", score=None),
        replace(EDIT, id=4, is_copy=True),
        PARENT,
    ]
    assert own.corrected(others) == others
    assert pool.asked == []


def test_a_program_that_fails_on_a_draw_has_its_worst_score_there():
    _, own = redraws(table((2.0, None)))
    (found,) = own.corrected([EDIT])
    assert found.gain == pytest.approx(((2.0 - 1.0) + (-9.0 - 1.0)) / 2)


def test_every_program_runs_once_on_each_draw():
    pool, own = redraws(table((1.2, 1.2)) | {("other", 0): 1.3, ("other", 1): 1.3})
    edits = [EDIT, replace(EDIT, id=2), replace(EDIT, id=3, program="other")]
    assert own.corrected(edits) == own.corrected(edits)
    assert sorted(pool.asked) == sorted({*pool.asked})
    assert len(pool.asked) == 6


def test_what_the_machine_could_not_run_is_left_out():
    _, own = redraws(table((InfrastructureError("lost"), 1.2)) | {("other", 0): 1.3, ("other", 1): 1.3})
    kept = replace(EDIT, id=3, program="other")
    assert [record.id for record in own.corrected([EDIT, PARENT, kept])] == [PARENT.id, kept.id]
