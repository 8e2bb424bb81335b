"""What the constructions have in common: one problem, one call, and a score that says how far it is to a record."""

from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from typing import ClassVar

import numpy as np

from atlas_gym.evaluation.result import Judgement, Limits
from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.calls import Program
from atlas_gym.tasks.constants import require_own_best_known
from atlas_gym.tasks.constructions.exact import at_most
from atlas_gym.tasks.program_task import ProgramTask

_FARTHEST = Fraction(10)
"""No score is farther from 0; what is useless has −1."""


class Construction(ProgramTask):
    """Base of the constructions. The docstring of a subclass is the problem in words.

    Nothing is drawn: one problem for all seeds, and no held-out ones. All have the keywords `preset`, `best_known` (the
    value that is worth 0), `limits` (60 s of wall-clock and CPU time) and `start` besides their own.
    """

    lower_is_better: ClassVar[bool] = False
    """Whether the value is to be small."""
    source: ClassVar[str] = ""
    """Who found the best known construction, where it was published and when."""
    imports = ("scipy.optimize",)
    metrics = ("value",)
    limits: Limits = Limits(wall_s=60.0, cpu_s=60.0)

    best_known: float = 1.0
    """The value that is worth 0, as printed in its source; a last digit that was cut off is rounded the harder way."""

    def __post_init__(self) -> None:
        if not 0 < self.best_known < float("inf"):
            raise ValueError(f"best_known is {self.best_known!r}; it must be positive and finite")
        shared = {field.name for field in fields(Construction)}
        require_own_best_known(self, *(f.name for f in fields(self) if f.name not in shared))

    def arguments(self) -> tuple[int, ...]:
        """What programs are called with; nothing is hidden."""
        return ()

    def instances(self, rng: np.random.Generator) -> Iterable[tuple[int, ...]]:
        """The one problem."""
        return [self.arguments()]

    def score(self, program: Program, instance: tuple[int, ...]) -> Judgement:
        """One call, judged exactly: the score is the value against the best known, rounded against the program."""
        value, diagnosis, traces = self.judged(program(*instance))
        ahead = value / Fraction(str(self.best_known)) - 1
        ahead = max(-_FARTHEST, -ahead if self.lower_is_better else ahead)
        told = min(value, Fraction(10**300))
        return Judgement(at_most(ahead), {"value": float(told)}, diagnosis, traces)

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """Value, words and traces of an answer, or a lower bound of the value (an upper one if lower is better).

        To be overridden. Ends the evaluation through `answer.refuse` if it is not feasible.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define judged")
