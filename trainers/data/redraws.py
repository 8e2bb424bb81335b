"""Improving edits, scored again on draws of their task that did not choose them.

A run scores its candidates on one draw of each task (its tours, its bandits), and an edit counts as improving because
that draw favours it. The best of many are favoured most, so of those that a phase would choose, some improve nothing
(the winner's curse). Scored again beside its parent, an edit is worth what it gains where nothing was chosen.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from statistics import fmean

from agents.population.candidate import CandidateRecord
from atlas_gym import ProgramTask
from atlas_gym.evaluation import Evaluation, InfrastructureError, Pool
from trainers.data.measures import is_improving

Redraw = Callable[[CandidateRecord, int], ProgramTask]
"""Draw number 0, 1, … of the task that a candidate was scored on: the same object for the same draw."""


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
        asked = {
            record.id: [self._both(record, draw) for draw in range(self._draws)]
            for record in records
            if is_improving(record, self._margin)
        }
        found: list[CandidateRecord] = []
        for record in records:
            try:
                found.append(_lowered(record, asked.get(record.id, ())))
            except InfrastructureError:
                continue
        return found

    def _both(self, record: CandidateRecord, draw: int) -> Callable[[], float]:
        """What the candidate gains on a draw, once it is asked for; its evaluations begin at once."""
        assert record.parent_id is not None, "an edit that improves has a parent"
        task = self._redraw(record, draw)
        own, before = (
            self._score(program, task) for program in (record.program, self._parent(record.parent_id).program)
        )
        return lambda: own() - before()

    def _score(self, program: str, task: ProgramTask) -> Callable[[], float]:
        key = program, id(task)  # somebody's own task need not be hashable
        if key not in self._running:
            self._running[key] = self._pool.submit(program, task)
        running = self._running[key]

        def score() -> float:
            found = running.result().score
            return task.worst_score if found is None else found

        return score


def _lowered(record: CandidateRecord, gains: Sequence[Callable[[], float]]) -> CandidateRecord:
    if not gains:
        return record
    assert record.gain is not None
    assert record.parent_score is not None
    gain = fmean(gain() for gain in gains)
    return record if gain >= record.gain else replace(record, score=record.parent_score + gain)
