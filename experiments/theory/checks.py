"""Checking the inequalities along simulated paths, and counting.

`PathChecks` is an observer of `simulate`: it looks at every phase of every run of the study, so "the lemmas
hold on every simulated path" is a count and not a claim. The constants it hands to the inequalities are the
ones the path itself realises (its smallest margin, its λ_min, its lowest reference probability), so each
assumption holds by construction and a violation would be an error in the lemma, the restored formula or
this code. Only Lemma A.5 is a statement of probability, at the level `DELTA` per path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from experiments.theory import inequalities, policies
from experiments.theory.drift import Array, variation
from experiments.theory.inequalities import Sides
from experiments.theory.learner import Learner
from experiments.theory.model import FEATURE_BOUND, Bandit, utilities
from experiments.theory.simulate import Phase

DELTA = 0.01
"""Probability, per path, with which Lemma A.5's bound may fail in some window."""
_CHUNK = 500
"""Rounds whose utilities are held in memory at once."""


@dataclass
class Tally:
    """How often an inequality was looked at, and what came out."""

    checked: int = 0
    """Comparisons of a left with a right side."""
    violations: int = 0
    """Comparisons where the left side was larger."""
    tightest: float = 0.0
    """Largest left/right; 1 would touch the bound."""

    def add(self, sides: Sides) -> None:
        """Count one array of comparisons."""
        left, right = np.broadcast_arrays(*sides)
        self.checked += left.size
        self.violations += int(violated(sides).sum())
        positive = right > 0
        if positive.any():
            self.tightest = max(self.tightest, float((left[positive] / right[positive]).max()))

    def merge(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.checked += other.checked
        self.violations += other.violations
        self.tightest = max(self.tightest, other.tightest)


def violated(sides: Sides) -> np.ndarray:
    """Where the left side exceeds the right one by more than rounding, or either is not a number."""
    left, right = sides
    return ~np.asarray(left <= right * (1 + 1e-9) + 1e-9)


def merged(tallies: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    """Sums of tallies by name."""
    total: dict[str, Tally] = {}
    for group in tallies:
        for name, tally in group.items():
            total.setdefault(name, Tally()).merge(tally)
    return total


def switches_and_margin(bandit: Bandit) -> tuple[Array, Array]:
    """Changes of the optimal action, (seeds, contexts), and the path's smallest margin γ, (seeds,)."""
    horizon = bandit.settings.horizon
    switches = np.zeros(bandit.features.shape[:2])
    margin = np.full(len(bandit.seeds), np.inf)
    last = None
    for start in range(0, horizon, _CHUNK):
        values = bandit.utilities(start, min(start + _CHUNK, horizon))
        best = values.argmax(-1)
        joined = best if last is None else np.concatenate([last, best], axis=1)
        switches += (np.diff(joined, axis=1) != 0).sum(1)
        top = np.partition(values, -2, axis=-1)
        margin = np.minimum(margin, (top[..., -1] - top[..., -2]).min((1, 2)))
        last = best[:, -1:]
    return switches, margin


class PathChecks:
    """Observer of a simulation that tallies every inequality of appendix A."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}

    def __call__(self, bandit: Bandit, learner: Learner, phase: Phase) -> None:
        if phase.start == 0:
            self._check_path(bandit, learner)
            return
        now = bandit.parameters[:, phase.start]
        error = np.linalg.norm(phase.estimate - now, axis=-1)
        self._check_estimate(bandit, learner, phase, now)
        comparator = policies.tilted(
            phase.log_reference, utilities(bandit.features, now[:, None])[:, 0], learner.beta
        )
        divergences = policies.kl(comparator, phase.log_policy)
        self.add("A.7 divergence", inequalities.divergence(divergences, error, learner.beta))
        largest = FEATURE_BOUND * np.linalg.norm(now, axis=-1)
        learning = inequalities.learning_step(phase.learning[:, 0], error, largest, learner.beta)
        self.add("Eq. 15 learning step", learning)
        lowest = phase.log_reference.min((1, 2))
        self.add("Eq. 16 bias step", inequalities.bias_step(phase.bias, lowest, learner.beta))

    def add(self, name: str, sides: Sides) -> None:
        """Count comparisons under a name."""
        self.tallies.setdefault(name, Tally()).add(sides)

    def _check_path(self, bandit: Bandit, learner: Learner) -> None:
        budget = variation(bandit.parameters)
        switches, margin = switches_and_margin(bandit)
        self.add("A.3 switching", inequalities.switching_budget(switches, budget[:, None], margin[:, None]))
        window = learner.window.length(bandit.settings.horizon)
        summed = inequalities.summed_local_variation(bandit.parameters, window, budget)
        self.add("A.4 summed variation", summed)

    def _check_estimate(self, bandit: Bandit, learner: Learner, phase: Phase, now: Array) -> None:
        past = bandit.parameters[:, phase.window : phase.start]
        local = np.linalg.norm(
            np.diff(bandit.parameters[:, phase.window : phase.start + 1], axis=1), axis=-1
        ).sum(-1)
        self.add("A.4 local distance", inequalities.local_distance(past, now, local))
        if learner.oracle:
            return  # nothing was estimated
        noise = inequalities.noise_sum(phase.differences, phase.labels, past)
        windows = bandit.settings.horizon / learner.window.phase_length(bandit.settings.horizon)
        normalised = inequalities.self_normalised(phase.differences, noise, learner.ridge, DELTA / windows)
        self.add("A.5 noise", normalised)
        for name, size in (
            ("A.6 error, realised noise", np.linalg.norm(noise, axis=-1)),
            ("A.6 error, A.5's noise", inequalities.euclidean(normalised[1], past.shape[1], learner.ridge)),
        ):
            self.add(name, _error_sides(learner, phase, now, size, local))


def _error_sides(learner: Learner, phase: Phase, now: Array, noise: Array, local: Array) -> Sides:
    rounds = phase.differences.shape[1]
    smallest = np.linalg.eigvalsh(inequalities.covariance(phase.differences))[:, 0]
    return inequalities.estimation_error(
        phase.estimate, now, noise, local, rounds, learner.ridge,
        inequalities.curvature(phase.differences, phase.estimate, now), np.maximum(smallest, 0.0) / rounds,
    )  # fmt: skip
