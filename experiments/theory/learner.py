"""One method of the study: what it estimates with, and how its reference moves.

Time runs in phases, as in EvoDPO. When a phase begins, θ̂ is refitted on the window and the policy becomes
π ∝ π_ref exp(⟨θ̂, φ⟩/β); that policy acts for the whole phase. Then the reference rule decides what the *next*
phase is anchored to. Rule names, the rules themselves and the gate (Eqs. 4 and 5) are those of
`trainers.evodpo.references` and `trainers.evodpo.gate`; only what they are applied to differs: there an adapter's
tensors, here a table of log-probabilities. (Mixing log-probabilities is what mixing parameters means in a
log-linear policy.)
"""

from dataclasses import dataclass, replace

import numpy as np

from atlas_gym.experiments.theory import policies
from atlas_gym.experiments.theory.model import Array, Indices
from atlas_gym.trainers.evodpo.gate import choose_candidate, passes_gate
from atlas_gym.trainers.evodpo.references import ReferenceRule, mixed_reference
from atlas_gym.trainers.evodpo.settings import GateSettings

GATE_CONTEXTS = 32
"""Size of the gate subset G_k: contexts drawn at random from the rounds of the window."""
WINDOW_EXPONENT = 2 / 3
"""κ of Eq. 15. 2/3 balances its terms T^κ V_T and T^(1−κ/2) for a constant V_T."""


@dataclass(frozen=True)
class Window:
    """Length of the estimator's window, offset + scale · T^κ rounds, and of a phase."""

    offset: float = 20.0
    """Rounds at T → 0; keeps short horizons from fitting noise."""
    scale: float = 0.5
    """Factor of T^κ."""
    phases: int = 2
    """Phases per window: a refit and a decision about the reference every window/phases rounds."""

    def length(self, horizon: int) -> int:
        """Rounds W in the window."""
        return round(self.offset + self.scale * horizon**WINDOW_EXPONENT)

    def phase_length(self, horizon: int) -> int:
        """Rounds per phase, at least 1."""
        return max(1, self.length(horizon) // self.phases)


@dataclass(frozen=True)
class Learner:
    """A method. The defaults are EvoDPO with the floor of the paper's Assumption 2."""

    rule: ReferenceRule = ReferenceRule("every_phase")
    """How the reference follows the policy, from `trainers.evodpo.references`."""
    stale: bool = False
    """True makes the first reference the deterministic optimum of round 0, with the floor, and not the uniform one."""
    beta: float = 1.0
    """Weight of the divergence from the reference, in units of utility, at T = 500."""
    beta_decay: float = 0.0
    """β is beta · (500/T)^beta_decay; 0 keeps it constant."""
    floor: float = 0.05
    """Share of a reference's probability that is spread over all actions, in [0, 1), at T = 500."""
    floor_decay: float = 0.0
    """The floor is floor · (500/T)^floor_decay; 0 keeps it constant."""
    window: Window = Window()
    """The estimator's window and the phases."""
    ridge: float = 1.0
    """λ of Eqs. 20-22."""
    gate: GateSettings = GateSettings(kl_penalty=0.0)
    """ε_s in units of utility, δ_H in nats, β_ref in utility per nat. Only the gated rule listens."""
    self_graded: bool = False
    """What the gate calls a score: the true mean utility at the time of the decision, as a task's evaluator gives it,
    or (True) mean ⟨θ̂, φ⟩, the learner grading itself."""
    checkpoints: int = 1
    """Size of the candidate set C_k of Eq. 4: policies at 1/n, 2/n, …, 1 of the phase's update."""
    oracle: bool = False
    """True gives the learner θ_t itself at each refit: what is left is the reference's doing."""

    def at(self, horizon: int) -> "Learner":
        """The same learner with β and floor as they are for a horizon of that many rounds."""
        short = 500.0 / horizon
        beta, floor = self.beta * short**self.beta_decay, self.floor * short**self.floor_decay
        return replace(self, beta=beta, beta_decay=0.0, floor=floor, floor_decay=0.0)

    def first_reference(self, utilities: Array) -> Array:
        """The reference of the first phase; `utilities` (seeds, contexts, actions) are those of round 0."""
        if self.stale:
            return policies.with_floor(policies.greedy(utilities), self.floor)
        return policies.uniform(utilities.shape)


def move_reference(
    learner: Learner, phase: int, log_reference: Array, estimated: Array, score: Array, subset: Indices
) -> tuple[Array, Array, Array]:
    """The reference rule's answer after a phase (counted from 1).

    `estimated` and `score` are utilities (seeds, contexts, actions): those the update was made with and
    those the gate grades by; `subset` (seeds, n) are the context indices of G_k.

    Returns:
        Log-probabilities of the next reference, (seeds, contexts, actions); how far it went towards the candidate, in
        [0, 1], (seeds,); and KL(candidate ‖ reference) in nats, mean over all contexts, (seeds,).
    """
    candidate = _candidate(learner, log_reference, estimated, score, subset)
    gains = policies.expected(candidate, score) - policies.expected(log_reference, score)
    kls = policies.kl(candidate, log_reference)
    promote = passes_gate(_on(subset, gains), _on(subset, kls), learner.gate)
    weight = learner.rule.weight(phase, promote)
    with np.errstate(invalid="ignore"):  # 0 · (−inf) in the branch that mixed_reference then does not take
        mixed = mixed_reference(weight, candidate, log_reference)
    partial = ((weight > 0) & (weight < 1))[:, None, None]
    return np.where(partial, policies.normalised(mixed), mixed), weight, kls.mean(-1)


def _candidate(
    learner: Learner, log_reference: Array, estimated: Array, score: Array, subset: Indices
) -> Array:
    """π_kl of Eq. 4: the phase's policy, or the best of its checkpoints."""
    # The phase-final policy first: it wins a tie.
    shares = [n / learner.checkpoints for n in range(learner.checkpoints, 0, -1)]
    tilted = [policies.tilted(log_reference, estimated * share, learner.beta) for share in shares]
    tables = [policies.with_floor(table, learner.floor) for table in tilted]
    if len(tables) == 1:
        return tables[0]
    scores = np.stack([_on(subset, policies.expected(table, score)) for table in tables], axis=-1)
    kls = np.stack([_on(subset, policies.kl(table, log_reference)) for table in tables], axis=-1)
    chosen = choose_candidate(scores, kls, learner.gate)
    return np.stack(tables, axis=1)[np.arange(len(log_reference)), chosen]


def _on(subset: Indices, values: Array) -> Array:
    """Mean over the gate subset: values (seeds, contexts) to (seeds,)."""
    return np.take_along_axis(values, subset, axis=1).mean(-1)
