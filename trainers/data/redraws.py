"""Improving edits, scored again on draws of their task that did not choose them.

A run scores its candidates on one draw of each task (its tours, its bandits), and an edit counts as improving because
that draw favours it. The best of many are favoured most, so of those that a phase would choose, some improve nothing
(the winner's curse). Scored again beside its parent, an edit is worth what it gains where nothing was chosen.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from statistics import fmean

from atlas_gym import ProgramTask
from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.evaluation import Evaluation, InfrastructureError, Pool
from atlas_gym.trainers.data.measures import is_improving

Redraw = Callable[[CandidateRecord, int], ProgramTask]
"""Draw number 0, 1, … of the task that a candidate was scored on: the same object for the same draw."""


_Draw = tuple[Future[Evaluation], Future[Evaluation], float]
"""A candidate's evaluation, its parent's, and the score of a program that fails."""


class Redraws:
    """Corrects the scores of improving edits; every program is run once on each draw.

    Args:
        pool: runs programs.
        redraw: poses the draws.
        parent: a candidate by its id.
        draws: how many draws each edit is scored on.
        margin: what counts as improving, in units of score.
    """

    def __init__(
        self,
        pool: Pool,
        redraw: Redraw,
        parent: Callable[[int], CandidateRecord],
        draws: int,
        margin: float,
    ):
        self._pool, self._redraw, self._parent = pool, redraw, parent
        self._draws, self._margin = draws, margin
        self._running: dict[tuple[str, int], Future[Evaluation]] = {}

    def corrected(self, records: Sequence[CandidateRecord]) -> list[CandidateRecord]:
        """The records; one that improves has the score at which it gains what it gains on average on the draws, if that
        is less. What the machine fails to run is left out."""
        # All are under way before the first is waited for.
        running = {record.id: self._asked(record) for record in records if is_improving(record, self._margin)}
        gains = {id_: _gain(asked) for id_, asked in running.items()}
        found = [(record, gains.get(record.id, math.inf)) for record in records]
        return [_lowered(record, gain) for record, gain in found if gain is not None]

    def _asked(self, record: CandidateRecord) -> list[_Draw]:
        assert record.parent_id is not None, "an edit that improves has a parent"
        parent = self._parent(record.parent_id)
        tasks = [self._redraw(record, draw) for draw in range(self._draws)]
        return [
            (self._run(record.program, task), self._run(parent.program, task), task.worst_score)
            for task in tasks
        ]

    def _run(self, program: str, task: ProgramTask) -> Future[Evaluation]:
        key = program, id(task)  # somebody's own task need not be hashable
        if key not in self._running:
            self._running[key] = self._pool.submit(program, task)
        return self._running[key]


def _gain(asked: Sequence[_Draw]) -> float | None:
    """What it gains on average; None if the machine failed to run it."""
    try:
        return fmean(_score(own, worst) - _score(parent, worst) for own, parent, worst in asked)
    except InfrastructureError:
        return None


def _score(evaluation: Future[Evaluation], worst: float) -> float:
    score = evaluation.result().score
    return worst if score is None else score


def _lowered(record: CandidateRecord, gain: float) -> CandidateRecord:
    if record.gain is None or record.parent_score is None or gain >= record.gain:
        return record
    return replace(record, score=record.parent_score + gain)
