"""What a run tells whoever watches it (the live view, W&B, a test). Observers never change a run."""

from collections.abc import Mapping
from typing import Any


class Observer:
    """Base of all observers: every method does nothing; override what is of interest."""

    def stage(self, text: str) -> None:
        """A stretch of work begins, for example "phase 1: tuning on 64 pairs"."""

    def seeded(self, score: float, round_: int, rounds: int) -> None:
        """The starting program was scored; `round_` rounds of `rounds` are in the store already."""

    def round(self, summary: Mapping[str, Any], best: float) -> None:
        """A round was folded into the islands; `best` is the best score of the run so far."""

    def exam(self, phase: int, exams: Mapping[int, Mapping[str, Any]]) -> None:
        """The policy after a phase (0: the base model) has taken the exam; `exams` has all answers so far
        (`trainers.loop.exam.learned`)."""

    def phase(self, result: Mapping[str, Any]) -> None:
        """A phase has ended with its gate decision."""

    def finished(self, summary: Mapping[str, Any]) -> None:
        """The run is complete."""
