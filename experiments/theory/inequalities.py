"""The inequalities of appendix A, each as a pair of arrays (left side, right side), and counting along paths how
often they fail.

Every constant that an assumption provides (γ, c_0, p_min, V_T, …) is an argument: handing over a value
that the path does not satisfy is how the study breaks an assumption on purpose. Formulas that the paper's
text lost are restored from its proofs; `docs/theory.md` says how.

`PathChecks` is an observer of `simulate`: it looks at every phase of every run of the study, so "the lemmas
hold on every simulated path" is a count and not a claim. The constants it hands over are the ones the path itself
realises (its smallest margin, its λ_min, its lowest reference probability), so each assumption holds by
construction and a violation would be an error in the lemma, the restored formula or this code. Only Lemma A.5 is a
statement of probability, at the level `DELTA` per path.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy.special import expit

from atlas_gym.experiments.theory import policies
from atlas_gym.experiments.theory.estimator import covariance, diversity
from atlas_gym.experiments.theory.model import (
    FEATURE_BOUND,
    Array,
    Bandit,
    preference_probability,
    utilities,
    variation,
)
from atlas_gym.experiments.theory.simulate import Simulation

LIPSCHITZ = 0.25
"""Lipschitz constant of σ, the paper's L."""
DIFFERENCE_BOUND = 2 * FEATURE_BOUND
"""‖z‖ = ‖φ(x, a) − φ(x, a')‖ ≤ 2 φ_max."""
DELTA = 0.01
"""Probability, per path, with which Lemma A.5's bound may fail in some window."""
_CHUNK = 500
"""Rounds whose utilities are held in memory at once."""

Sides = tuple[Array, Array]


def switching_budget(switches: Array, variation: Array, margin: Array) -> Sides:
    """Lemma A.3: B_T ≤ (2 φ_max/γ) V_T."""
    return switches, 2 * FEATURE_BOUND * variation / margin


def local_distance(parameters: Array, now: Array, local: Array) -> Sides:
    """Lemma A.4, first claim: ‖θ_t − θ_s‖ ≤ V_{t,W} for every s in the window.

    `parameters` (seeds, window, d) are the θ_s, `now` (seeds, d) is θ_t, `local` (seeds,) is V_{t,W}.
    """
    return np.linalg.norm(parameters - now[:, None], axis=-1).max(-1), local


def summed_local_variation(path: Array, window: int, variation: Array) -> Sides:
    """Lemma A.4, second claim: Σ_t V_{t,W} ≤ W · V_T, with V_T as claimed."""
    return local_variations(path, window).sum(-1), window * variation


def local_variations(path: Array, window: int) -> Array:
    """V_{t,W} = Σ ‖θ_{i+1} − θ_i‖ over t − W ≤ i < t, for every t: shape (seeds, horizon)."""
    travelled = np.zeros(path.shape[:2])
    travelled[:, 1:] = np.linalg.norm(np.diff(path, axis=1), axis=-1).cumsum(-1)
    first = np.maximum(np.arange(path.shape[1]) - window, 0)
    return travelled - travelled[:, first]


def noise_sum(differences: Array, labels: Array, parameters: Array) -> Array:
    """Σ z_s ε_s with ε_s = y_s − σ(z_sᵀθ_s), shape (seeds, d)."""
    noise = labels - preference_probability(parameters, differences)
    return (noise[:, None] @ differences)[:, 0]


def self_normalised(differences: Array, noise: Array, ridge: float, delta: float) -> Sides:
    """Lemma A.5: ‖Σ zε‖_{V⁻¹} ≤ √(d log(1 + 4 φ_max² W/(dλ)) + 2 log(1/δ)), with probability 1 − δ."""
    seeds, rounds, d = differences.shape
    v = covariance(differences) + ridge * np.eye(d)
    left = np.sqrt(np.maximum((noise * np.linalg.solve(v, noise[..., None])[..., 0]).sum(-1), 0.0))
    growth = d * np.log1p(DIFFERENCE_BOUND**2 * rounds / (d * ridge))
    return left, np.full(seeds, np.sqrt(growth + 2 * np.log(1 / delta)))


def euclidean(normalised: Array, rounds: int, ridge: float) -> Array:
    """From ‖·‖_{V⁻¹} to ‖·‖, as A.5's proof does: times √(λ + 4 φ_max² W), the largest V can be."""
    return normalised * np.sqrt(ridge + DIFFERENCE_BOUND**2 * rounds)


def curvature(differences: Array, estimate: Array, now: Array) -> Array:
    """κ of Assumption A.2: the smallest σ'(z_sᵀθ) over the window and over θ between θ̂ and θ_t."""
    reach = np.maximum(np.abs(differences @ estimate[..., None]), np.abs(differences @ now[..., None]))
    slope = expit(reach) * expit(-reach)  # |zᵀθ| is largest at an end of the segment, σ' smallest there
    return slope.min((1, 2))


def estimation_error(run: Simulation, now: Array, noise: Array, local: Array, offered: Array) -> Sides:
    """Lemma A.6: ‖θ̂ − θ_t‖ ≤ [L (2φ_max)² W V_{t,W} + ‖Σ zε‖ + λ‖θ_t‖] / (λ + κ c_0 W).

    `noise` (seeds,) is ‖Σ zε‖ or a bound of it; `offered` (seeds,) is c_0 of Assumption A.1.
    """
    differences, ridge = run.differences[:, run.window], run.learner.ridge
    rounds = differences.shape[1]
    drift = LIPSCHITZ * DIFFERENCE_BOUND**2 * rounds * local
    pull = ridge * np.linalg.norm(now, axis=-1)
    left = np.linalg.norm(run.estimate - now, axis=-1)
    kappa = curvature(differences, run.estimate, now)
    return left, (drift + noise + pull) / (ridge + kappa * offered * rounds)


def divergence(kl: Array, error: Array, beta: float) -> Sides:
    """Lemma A.7: KL(π_kl ‖ π_t) ≤ φ_max² ‖θ̂ − θ‖²/(2β²) in every context; `kl` (seeds, contexts)."""
    right = FEATURE_BOUND**2 * error**2 / (2 * beta**2)
    return kl, np.broadcast_to(right[:, None], kl.shape)


def learning_step(learning: Array, error: Array, largest_utility: Array, beta: float) -> Sides:
    """Proof of Eq. 15: V(π_kl) − V(π_t) ≤ u_max ‖π_kl − π_t‖₁ ≤ u_max √(2 KL) ≤ u_max φ_max ‖θ̂ − θ‖/β."""
    return learning, largest_utility * FEATURE_BOUND * error / beta


def bias_step(bias: Array, lowest_log_reference: Array, beta: float) -> Sides:
    """Proof of Eq. 16, one round: bias ≤ β KL(π* ‖ π_ref) ≤ β log(1/p_min); `bias` (seeds, rounds)."""
    return bias, np.broadcast_to(-beta * lowest_log_reference[:, None], bias.shape)


def summed_bias(bias: Array, switches: Array, floor: float, actions: int, beta: float, price: bool) -> Sides:
    """Proof of Eq. 16, summed: Σ bias ≤ β [(1 + B_T) log(A/f) + T log(1/(1−f))].

    It needs the reference of round t to be the floored comparator of round t − 1. `price=False` leaves out
    the last term, as the paper's bound does, which takes the floor for free. `bias` (seeds, rounds).
    """
    free = (1 + switches) * np.log(actions / floor)
    paid = bias.shape[1] * np.log(1 / (1 - floor)) if price else 0.0
    return bias.sum(-1), beta * (free + paid)


def violated(sides: Sides) -> np.ndarray:
    """Where the left side exceeds the right one by more than rounding, or either is not a number."""
    left, right = sides
    return ~np.asarray(left <= right * (1 + 1e-9) + 1e-9)


def merged(tallies: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One tally of several: a row an inequality, in alphabetical order.

    Of each how many comparisons were `checked`, in how many the left side was larger (`violations`), and the largest
    left/right (`tightest`; 1 would touch the bound).
    """
    total = {"checked": "sum", "violations": "sum", "tightest": "max"}
    return pd.concat(tallies).groupby("inequality").agg(total)


def switches_and_margin(bandit: Bandit) -> tuple[Array, Array]:
    """Changes of the optimal action, (seeds, contexts), and the path's smallest margin γ, (seeds,)."""
    horizon = bandit.settings.horizon
    switches = np.zeros(bandit.features.shape[:2])
    margin = np.full(len(bandit.seeds), np.inf)
    for start in range(0, horizon, _CHUNK):
        # With the last round of the chunk before, so that no switch falls between two.
        values = bandit.utilities(max(0, start - 1), min(start + _CHUNK, horizon))
        switches += (np.diff(values.argmax(-1), axis=1) != 0).sum(1)
        top = np.partition(values, -2, axis=-1)
        margin = np.minimum(margin, (top[..., -1] - top[..., -2]).min((1, 2)))
    return switches, margin


class PathChecks:
    """Observer of a simulation that counts every inequality of appendix A."""

    def __init__(self) -> None:
        self._counts: list[tuple[str, int, int, float]] = []

    @property
    def tally(self) -> pd.DataFrame:
        """What was counted, see `merged`."""
        return merged(
            [pd.DataFrame(self._counts, columns=["inequality", "checked", "violations", "tightest"])]
        )

    def __call__(self, run: Simulation) -> None:
        start, beta = run.rounds.start, run.learner.beta
        if start == 0:
            self._check_path(run)
            return
        now = run.bandit.parameters[:, start]
        error = np.linalg.norm(run.estimate - now, axis=-1)
        self._check_estimate(run, now)
        comparator = policies.tilted(run.reference, utilities(run.bandit.features, now[:, None])[:, 0], beta)
        self.add("A.7 divergence", divergence(policies.kl(comparator, run.policy), error, beta))
        largest = FEATURE_BOUND * np.linalg.norm(now, axis=-1)
        self.add("Eq. 15 learning step", learning_step(run.learning[:, start], error, largest, beta))
        lowest = run.reference.min((1, 2))
        self.add("Eq. 16 bias step", bias_step(run.bias[:, run.rounds], lowest, beta))

    def add(self, name: str, sides: Sides) -> None:
        """Count comparisons under a name."""
        left, right = np.broadcast_arrays(*sides)
        ratios = left[right > 0] / right[right > 0]
        self._counts.append((name, left.size, int(violated(sides).sum()), float(ratios.max(initial=0.0))))

    def _check_path(self, run: Simulation) -> None:
        path = run.bandit.parameters
        switches, margin = switches_and_margin(run.bandit)
        self.add("A.3 switching", switching_budget(switches, variation(path)[:, None], margin[:, None]))
        window = run.learner.window.length(path.shape[1])
        self.add("A.4 summed variation", summed_local_variation(path, window, variation(path)))

    def _check_estimate(self, run: Simulation, now: Array) -> None:
        path, ridge = run.bandit.parameters, run.learner.ridge
        past, local = path[:, run.window], variation(path[:, run.window.start : run.window.stop + 1])
        self.add("A.4 local distance", local_distance(past, now, local))
        if run.learner.oracle:
            return  # nothing was estimated
        differences = run.differences[:, run.window]
        noise = noise_sum(differences, run.labels[:, run.window], past)
        windows = path.shape[1] / run.learner.window.phase_length(path.shape[1])
        normalised = self_normalised(differences, noise, ridge, DELTA / windows)
        self.add("A.5 noise", normalised)
        offered, bound = diversity(differences), euclidean(normalised[1], past.shape[1], ridge)
        realised = np.linalg.norm(noise, axis=-1)
        self.add("A.6 error, realised noise", estimation_error(run, now, realised, local, offered))
        self.add("A.6 error, A.5's noise", estimation_error(run, now, bound, local, offered))
