"""A method on a batch of bandits, vectorised over seeds *and* over the rounds of a phase.

Between two refits the policy is constant and the environment's path does not depend on what the learner
does, so a whole phase is one set of array operations: T rounds cost about T/phase Python iterations.

Every regret is exact, an expectation over contexts (equally likely) and over the policy's actions; only the
learner's data are sampled. Per round (Eq. 13),

    V_t(π*) − V_t(π_t)  =  [V_t(π_kl,t) − V_t(π_t)]  +  [V_t(π*) − V_t(π_kl,t)]
    regret                  learning error              reference bias

with the comparator π_kl,t ∝ π_ref,t exp(u_t/β) built on the reference that is in force in round t.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atlas_gym.seeding import stream
from experiments.theory import policies
from experiments.theory.estimator import diversity, fit_logistic
from experiments.theory.learner import GATE_CONTEXTS, Learner, Step, move_reference
from experiments.theory.model import Array, Bandit, preference_probability, sample_actions, utilities


@dataclass(frozen=True)
class Phase:
    """What an observer sees when a phase has been played."""

    start: int
    """First round of the phase."""
    window: int
    """First round of the estimator's window, which ends before `start`."""
    differences: Array
    """z_s of the window, (seeds, rounds, dimension)."""
    labels: Array
    """y_s of the window, (seeds, rounds)."""
    estimate: Array
    """θ̂, (seeds, dimension)."""
    log_reference: Array
    """The reference in force, (seeds, contexts, actions)."""
    log_policy: Array
    """The policy that acted, (seeds, contexts, actions)."""
    learning: Array
    """Learning error of each round of the phase, (seeds, rounds)."""
    bias: Array
    """Reference bias of each round of the phase, (seeds, rounds)."""


Observer = Callable[[Bandit, Learner, Phase], None]


@dataclass(frozen=True)
class Trace:
    """What one method did on a batch of bandits."""

    regret: Array
    """V_t(π*) − V_t(π_t), shape (seeds, horizon)."""
    learning: Array
    """Learning error of Eq. 13, shape (seeds, horizon)."""
    bias: Array
    """Reference bias of Eq. 13, shape (seeds, horizon)."""
    weight: Array
    """How far the reference went towards the candidate, (seeds, phases − 1): 1 is a promotion."""
    kl: Array
    """KL(candidate ‖ reference) per decision, nats, (seeds, phases − 1)."""
    lowest_log_reference: Array
    """Logarithm of the smallest probability any reference gave to any action, (seeds,)."""
    diversity: Array
    """λ_min(Σ z zᵀ)/W at each refit, the c_0 of Assumption A.1 that this path offers, (seeds, phases − 1)."""


def simulate(bandit: Bandit, learner: Learner, observers: Sequence[Observer] = ()) -> Trace:
    """Play the whole horizon; `observers` are called after each phase."""
    return _Run(bandit, learner).play(observers)


class _Run:
    """The state of one simulation."""

    def __init__(self, bandit: Bandit, learner: Learner):
        settings = bandit.settings
        self.bandit, self.learner, self.horizon = bandit, learner.at(settings.horizon), settings.horizon
        seeds = len(bandit.seeds)
        self.window = learner.window.length(self.horizon)
        self.differences = np.zeros((seeds, self.horizon, settings.dimension))
        self.labels = np.zeros((seeds, self.horizon))
        self.estimate = np.zeros((seeds, settings.dimension))
        self.reference = learner.first_reference(bandit.utilities(0, 1)[:, 0])
        self.lowest = self.reference.min((1, 2))
        self.gate_streams = [stream(seed, "regret", "gate", self.horizon) for seed in bandit.seeds]
        self.regret, self.learning, self.bias = (np.zeros((seeds, self.horizon)) for _ in range(3))

    def play(self, observers: Sequence[Observer]) -> Trace:
        steps: list[Step] = []
        diversities: list[Array] = []
        length = self.learner.window.phase_length(self.horizon)
        for number, start in enumerate(range(0, self.horizon, length)):
            stop = min(start + length, self.horizon)
            window = slice(max(0, start - self.window), start)
            if start:
                self.estimate = self._fit(window)
                diversities.append(diversity(self.differences[:, window]))
            estimated = utilities(self.bandit.features, self.estimate[:, None])[:, 0]
            policy = policies.tilted(self.reference, estimated, self.learner.beta)
            self._act(policy, slice(start, stop))
            for observer in observers:
                observer(self.bandit, self.learner, self._view(slice(start, stop), window, policy))
            if start:
                steps.append(self._decide(number, estimated, window))
        weight, kl = (np.stack([getattr(s, name) for s in steps], 1) for name in ("weight", "kl"))
        found = self.regret, self.learning, self.bias
        return Trace(*found, weight, kl, self.lowest, np.stack(diversities, 1))

    def _fit(self, window: slice) -> Array:
        if self.learner.oracle:
            return self.bandit.parameters[:, window.stop]
        seen = self.differences[:, window], self.labels[:, window]
        return fit_logistic(*seen, self.learner.ridge, self.estimate)

    def _act(self, policy: Array, rounds: slice) -> None:
        """Play some rounds with one policy; record regret and labels."""
        true = self.bandit.utilities(rounds.start, rounds.stop)
        comparator = policies.tilted(self.reference[:, None], true, self.learner.beta)
        best, ours = policies.largest(true).mean(-1), policies.expected(policy[:, None], true).mean(-1)
        regularised = policies.expected(comparator, true).mean(-1)
        self.regret[:, rounds] = best - ours
        self.learning[:, rounds] = regularised - ours
        self.bias[:, rounds] = best - regularised
        self._label(policy, rounds)

    def _label(self, policy: Array, rounds: slice) -> None:
        """Draw a pair per round from the policy and a Bradley-Terry label for it."""
        seeds = np.arange(len(policy))[:, None]
        contexts = self.bandit.contexts[:, rounds]
        actions = sample_actions(np.exp(policy)[seeds, contexts], self.bandit.action_draws[:, rounds])
        chosen = self.bandit.features[seeds[..., None], contexts[..., None], actions]
        differences = chosen[:, :, 0] - chosen[:, :, 1]
        wins = preference_probability(self.bandit.parameters[:, rounds], differences)
        self.differences[:, rounds] = differences
        self.labels[:, rounds] = self.bandit.label_draws[:, rounds] < wins

    def _decide(self, number: int, estimated: Array, window: slice) -> Step:
        """Let the reference rule choose what the next phase is anchored to."""
        true = self.bandit.utilities(window.stop, window.stop + 1)[:, 0]
        score = estimated if self.learner.self_graded else true
        subset = self._gate_subset(window)
        step = move_reference(self.learner, number, self.reference, estimated, score, subset)
        self.reference = step.reference
        self.lowest = np.minimum(self.lowest, self.reference.min((1, 2)))
        return step

    def _gate_subset(self, window: slice) -> npt.NDArray[np.int64]:
        """G_k: contexts of rounds drawn afresh from the window, whatever their score."""
        drawn = [rng.integers(window.start, window.stop, GATE_CONTEXTS) for rng in self.gate_streams]
        return np.take_along_axis(self.bandit.contexts, np.stack(drawn), axis=1)

    def _view(self, rounds: slice, window: slice, policy: Array) -> Phase:
        return Phase(
            rounds.start, window.start, self.differences[:, window], self.labels[:, window], self.estimate,
            self.reference, policy, self.learning[:, rounds], self.bias[:, rounds],
        )  # fmt: skip
