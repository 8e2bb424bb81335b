"""Whether a program knows the task it was searched on rather than how to solve such tasks.

A run scores every candidate on one task, so that scores are paired; what programs let out (their error texts,
their statuses, their very scores) tells later programs about that task. The training score of a program that
remembers it is not borne out by its held-out scores; docs/memorising.md says what is done about it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LARGE = 3.0
"""A gap of more than this many standard deviations is called large."""


@dataclass(frozen=True)
class HeldOutGap:
    """A program's training score against its scores on tasks that no program of the run saw."""

    gap: float
    """Training score minus the mean of the held-out scores; above 0, its own task flatters it."""
    chance: float | None
    """What the draw of the training task may leave between the two: LARGE standard deviations; None with fewer
    than two held-out scores."""
    failed: int = 0
    """Held-out tasks that it failed on; its score there is the worst one."""

    @property
    def large(self) -> bool:
        """Whether the program does better on its own task than chance explains, or fails on others."""
        return self.failed > 0 or (self.chance is not None and self.gap > self.chance)

    @property
    def word(self) -> str:
        """The gap for a reader, with a word when it is large."""
        chance = "" if self.chance is None else f" (chance: up to {self.chance:.4f})"
        failed = f"; fails on {self.failed} held-out tasks" if self.failed else ""
        return f"{self.gap:+.4f}{chance}{failed}{'; large: memorised or overfitted' if self.large else ''}"


def held_out_gap(training: float, held_out: Sequence[float], failed: int = 0) -> HeldOutGap | None:
    """Compare a training score with held-out scores, `failed` of them worst scores; None without any.

    The training task is one more draw of what the held-out tasks are drawn from. So for a program that does not
    depend on it the gap has the standard deviation s·√(1 + 1/n), with s and n those of the held-out scores.
    """
    if not held_out:
        return None
    n = len(held_out)
    mean = sum(held_out) / n
    if n < 2:
        return HeldOutGap(training - mean, None, failed)
    variance = sum((score - mean) ** 2 for score in held_out) / (n - 1)
    return HeldOutGap(training - mean, LARGE * math.sqrt(variance * (1 + 1 / n)), failed)
