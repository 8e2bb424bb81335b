"""A smoke run: does a program run at all, found out for a hundredth of what an evaluation costs.

Most of what a small language model writes fails at its first calls: shapes that do not fit, names that are not there,
an index into an empty history. A task's smoke run (`ProgramTask.smoke`) is a task like any other, evaluated in the same
confined worker, whose score means nothing: a program passes if its status is ok, or if it was still busy when the
time was over, which says nothing against it.
"""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atlas_gym.evaluation.channel import Channel
from atlas_gym.evaluation.result import Evaluation, Judgement, Limits, Status
from atlas_gym.tasks.calls import Calls, Enough, scoring

if TYPE_CHECKING:
    from atlas_gym.tasks.program_task import ProgramTask

CALLS = 5
"""Calls of a smoke run, at most."""
SECONDS = 2.0
"""Wall-clock and CPU time of a smoke run, at most."""


def passes(evaluation: Evaluation) -> bool:
    return evaluation.status in (Status.OK, Status.TIMEOUT)


@dataclass(frozen=True)
class SmokeRun:
    """The first calls that a task makes on its first instance (an `evaluation.channel.Task`)."""

    task: "ProgramTask"
    """The task whose programs are tried."""

    @property
    def function(self) -> str:
        return self.task.function

    @property
    def driver(self) -> str:
        return self.task.driver

    @property
    def torch(self) -> bool:
        return self.task.torch

    @property
    def imports(self) -> tuple[str, ...]:
        return self.task.imports

    @property
    def limits(self) -> Limits:
        return self.task.limits.within(SECONDS)

    def prepare(self) -> None:
        self.task.prepare()

    def judge(self, channel: Channel) -> Judgement:
        calls = Calls(channel, self.task.function, self.task.program_seed, most=CALLS)
        with contextlib.suppress(Enough), scoring():
            self.task.score_all(calls, self.task.copies()[:1])
        return Judgement(0.0)
