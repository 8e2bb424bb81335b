"""The inequalities of appendix A, each as a pair of arrays (left side, right side).

Every constant that an assumption provides (γ, c_0, κ, p_min, V_T, …) is an argument: handing over a value
that the path does not satisfy is how the study breaks an assumption on purpose. Formulas that the paper's
text lost are restored from its proofs; `docs/theory.md` says how.
"""

import numpy as np
from scipy.special import expit

from experiments.theory.drift import Array
from experiments.theory.estimator import covariance
from experiments.theory.model import FEATURE_BOUND, preference_probability

LIPSCHITZ = 0.25
"""Lipschitz constant of σ, the paper's L."""
DIFFERENCE_BOUND = 2 * FEATURE_BOUND
"""‖z‖ = ‖φ(x, a) − φ(x, a')‖ ≤ 2 φ_max."""

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


def estimation_error(
    estimate: Array,
    now: Array,
    noise: Array,
    local: Array,
    rounds: int,
    ridge: float,
    kappa: Array,
    diversity: Array,
) -> Sides:
    """Lemma A.6: ‖θ̂ − θ_t‖ ≤ [L (2φ_max)² W V_{t,W} + ‖Σ zε‖ + λ‖θ_t‖] / (λ + κ c_0 W).

    `noise` (seeds,) is ‖Σ zε‖ or a bound of it; `diversity` (seeds,) is c_0 of Assumption A.1.
    """
    drift = LIPSCHITZ * DIFFERENCE_BOUND**2 * rounds * local
    pull = ridge * np.linalg.norm(now, axis=-1)
    left = np.linalg.norm(estimate - now, axis=-1)
    return left, (drift + noise + pull) / (ridge + kappa * diversity * rounds)


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
