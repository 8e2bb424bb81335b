"""Which choices have paid: trials and improvements per choice, forgotten slowly.

Used for edit sites (which line to rewrite) and for writers (who is to write). A choice's shrunken rate of improvement,
(improvements + 1/2) / (trials + 4), puts an untried one at 1/8, above what most choices turn out to be, so that
everything is tried.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

Choice = TypeVar("Choice", bound=Hashable)

_PRIOR_IMPROVEMENTS, _PRIOR_TRIALS = 0.5, 4.0


@dataclass
class ChoiceStatistics:
    """A tally that is changed in the order of the run's records."""

    decay: float = 0.996  # factor on a choice's tally per trial of it; 0.996 forgets half in about 170 trials
    uniform: float = 0.25
    """Share of the uniform distribution in every draw, in [0, 1]: it keeps every choice alive."""
    _tally: dict[Hashable, tuple[float, float]] = field(default_factory=dict)

    def add(self, choice: Hashable, improved: bool) -> None:
        """Count one trial."""
        trials, improvements = self._tally.get(choice, (0.0, 0.0))
        self._tally[choice] = (self.decay * trials + 1, self.decay * improvements + improved)

    def forget(self, choice: Hashable) -> None:
        """Hold a choice for untried again."""
        self._tally.pop(choice, None)

    def weight(self, choice: Hashable) -> float:
        """Shrunken rate of improvement."""
        trials, improvements = self._tally.get(choice, (0.0, 0.0))
        return (improvements + _PRIOR_IMPROVEMENTS) / (trials + _PRIOR_TRIALS)

    def choose(self, choices: Sequence[Hashable], rng: np.random.Generator) -> int:
        """Index of one of ``choices``, by weight mixed with uniform."""
        weights = np.array([self.weight(choice) for choice in choices])
        mixed = (1 - self.uniform) * weights / weights.sum() + self.uniform / len(choices)
        return int(rng.choice(len(choices), p=mixed / mixed.sum()))

    def sample(self, choices: Mapping[Choice, float], rng: np.random.Generator) -> Choice:
        """One of ``choices`` by Thompson sampling (Thompson, 1933): the best of a draw from each choice's posterior, a
        Beta distribution; uniformly for the uniform share.

        What is untried is expected to pay as much as all of the choices together do, in proportion to its weight: where
        little pays, the least known are not the most promising."""
        names = list(choices)
        if rng.random() < self.uniform:
            return names[int(rng.integers(len(names)))]
        tallies = [self._tally.get(choice, (0.0, 0.0)) for choice in names]
        trials, improvements = map(sum, zip(*tallies, strict=True))
        rate = (improvements + _PRIOR_IMPROVEMENTS) / (trials + _PRIOR_TRIALS)
        draws = []
        for choice, (tried, improved) in zip(names, tallies, strict=True):
            expected = min(0.9, rate * choices[choice] * len(names) / sum(choices.values()))
            prior = _PRIOR_TRIALS * expected
            draws.append(rng.beta(improved + prior, tried - improved + _PRIOR_TRIALS - prior))
        return names[int(np.argmax(draws))]
