"""Which choices have paid: trials and improvements per choice, forgotten slowly.

Used for edit sites (which line to rewrite) and for styles. The weight (improvements + 1/2) / (trials + 4) is a
shrunken rate of improvement: an untried choice stands at 1/8, above what most choices turn out to be, so
everything is tried. A uniform share keeps every choice alive.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class ChoiceStatistics:
    """A tally that is changed only by :meth:`add`, in the order of the run's records."""

    decay: float = 0.996
    """Factor on a choice's tally per trial of it; 0.996 forgets half in about 170 trials."""
    uniform: float = 0.25
    """Share of the uniform distribution in every draw, in [0, 1]."""
    _tally: dict[Hashable, tuple[float, float]] = field(default_factory=dict)

    def add(self, choice: Hashable, improved: bool) -> None:
        """Count one trial."""
        trials, improvements = self._tally.get(choice, (0.0, 0.0))
        self._tally[choice] = (self.decay * trials + 1, self.decay * improvements + improved)

    def weight(self, choice: Hashable) -> float:
        """Shrunken rate of improvement."""
        trials, improvements = self._tally.get(choice, (0.0, 0.0))
        return (improvements + 0.5) / (trials + 4)

    def choose(
        self, choices: Sequence[Hashable], rng: np.random.Generator, prior: Sequence[float] | None = None
    ) -> int:
        """Index of one of ``choices``, by weight (times ``prior``) mixed with uniform (times ``prior``)."""
        priors = np.ones(len(choices)) if prior is None else np.asarray(prior, dtype=float)
        weights = priors * [self.weight(choice) for choice in choices]
        mixed = (1 - self.uniform) * weights / weights.sum() + self.uniform * priors / priors.sum()
        return int(rng.choice(len(choices), p=mixed / mixed.sum()))
