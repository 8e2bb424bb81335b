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

import numpy as np

from atlas_gym.experiments.theory import policies
from atlas_gym.experiments.theory.estimator import diversity, fit_logistic
from atlas_gym.experiments.theory.learner import GATE_CONTEXTS, Learner, move_reference
from atlas_gym.experiments.theory.model import (
    Array,
    Bandit,
    Indices,
    preference_probability,
    sample_actions,
    utilities,
)
from atlas_gym.seeding import stream


class Simulation:
    """One method on a batch of bandits, as far as it has been played.

    Attributes:
        rounds: those of the phase that was played last, a slice.
        window: the rounds of the estimator's window, which ends before them, a slice.
        differences: z_s, (seeds, horizon, dimension).
        labels: y_s, (seeds, horizon).
        estimate: θ̂, (seeds, dimension).
        reference: log-probabilities of the reference in force, (seeds, contexts, actions).
        policy: log-probabilities of the policy that acted, (seeds, contexts, actions).
        regret: V_t(π*) − V_t(π_t), (seeds, horizon).
        learning: learning error of Eq. 13, (seeds, horizon).
        bias: reference bias of Eq. 13, (seeds, horizon).
        weight: how far the reference went towards the candidate, (seeds, phases − 1): 1 is a promotion.
        kl: KL(candidate ‖ reference) per decision, nats, (seeds, phases − 1).
        diversity: λ_min(Σ z zᵀ)/W at each refit, the c_0 of Assumption A.1 that this path offers, (seeds, phases − 1).
        lowest: logarithm of the smallest probability any reference gave to any action, (seeds,).
    """

    def __init__(self, bandit: Bandit, learner: Learner):
        seeds, horizon = len(bandit.seeds), bandit.settings.horizon
        self.bandit, self.learner = bandit, learner.at(horizon)
        self.rounds = self.window = slice(0, 0)
        self.differences = np.zeros((seeds, horizon, bandit.settings.dimension))
        self.labels, self.regret, self.learning, self.bias = (np.zeros((seeds, horizon)) for _ in range(4))
        self.estimate = np.zeros((seeds, bandit.settings.dimension))
        self.reference = self.policy = self.learner.first_reference(bandit.utilities(0, 1)[:, 0])
        decisions = (horizon - 1) // learner.window.phase_length(horizon)
        self.weight, self.kl, self.diversity = (np.zeros((seeds, decisions)) for _ in range(3))
        self.lowest = self.reference.min((1, 2))
        self._gate_streams = [stream(seed, "regret", "gate", horizon) for seed in bandit.seeds]

    def play(self, observers: Sequence["Observer"]) -> None:
        """All phases; `observers` are called after each, before the reference moves."""
        horizon, window = self.bandit.settings.horizon, self.learner.window
        length = window.phase_length(horizon)
        for number, start in enumerate(range(0, horizon, length)):
            self.rounds = slice(start, min(start + length, horizon))
            self.window = slice(max(0, start - window.length(horizon)), start)
            if number:
                self._fit()
                self.diversity[:, number - 1] = diversity(self.differences[:, self.window])
            estimated = utilities(self.bandit.features, self.estimate[:, None])[:, 0]
            self.policy = policies.tilted(self.reference, estimated, self.learner.beta)
            self._act()
            self._label()
            for observer in observers:
                observer(self)
            if number:
                self._decide(number, estimated)

    def _fit(self) -> None:
        if self.learner.oracle:
            self.estimate = self.bandit.parameters[:, self.window.stop]
        else:
            seen = self.differences[:, self.window], self.labels[:, self.window]
            self.estimate = fit_logistic(*seen, self.learner.ridge, self.estimate)

    def _act(self) -> None:
        """Play the phase's rounds; record regret and its parts."""
        rounds = self.rounds
        true = self.bandit.utilities(rounds.start, rounds.stop)
        comparator = policies.tilted(self.reference[:, None], true, self.learner.beta)
        best, ours = policies.largest(true).mean(-1), policies.expected(self.policy[:, None], true).mean(-1)
        regularised = policies.expected(comparator, true).mean(-1)
        self.regret[:, rounds] = best - ours
        self.learning[:, rounds] = regularised - ours
        self.bias[:, rounds] = best - regularised

    def _label(self) -> None:
        """Draw a pair per round from the policy and a Bradley-Terry label for it."""
        bandit, rounds = self.bandit, self.rounds
        seeds = np.arange(len(self.policy))[:, None]
        contexts = bandit.contexts[:, rounds]
        actions = sample_actions(np.exp(self.policy)[seeds, contexts], bandit.action_draws[:, rounds])
        chosen = bandit.features[seeds[..., None], contexts[..., None], actions]
        differences = chosen[:, :, 0] - chosen[:, :, 1]
        self.differences[:, rounds] = differences
        wins = preference_probability(bandit.parameters[:, rounds], differences)
        self.labels[:, rounds] = bandit.label_draws[:, rounds] < wins

    def _decide(self, number: int, estimated: Array) -> None:
        """Let the reference rule choose what the next phase is anchored to."""
        now = self.window.stop
        score = estimated if self.learner.self_graded else self.bandit.utilities(now, now + 1)[:, 0]
        self.reference, self.weight[:, number - 1], self.kl[:, number - 1] = move_reference(
            self.learner, number, self.reference, estimated, score, self._gate_subset()
        )
        self.lowest = np.minimum(self.lowest, self.reference.min((1, 2)))

    def _gate_subset(self) -> Indices:
        """G_k: contexts of rounds drawn afresh from the window, whatever their score."""
        first, end = self.window.start, self.window.stop
        drawn = [rng.integers(first, end, GATE_CONTEXTS) for rng in self._gate_streams]
        return np.take_along_axis(self.bandit.contexts, np.stack(drawn), axis=1)


Observer = Callable[[Simulation], None]


def simulate(bandit: Bandit, learner: Learner, observers: Sequence[Observer] = ()) -> Simulation:
    """Play the whole horizon; `observers` are called after each phase."""
    played = Simulation(bandit, learner)
    played.play(observers)
    return played
