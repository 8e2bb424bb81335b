"""Does a moving reference lower dynamic regret when preferences drift? The paper's section 2.3, simulated.

    python -m atlas_gym.experiments.theory --out docs/figures/theory.png

Round t shows a context x_t; the learner draws two actions from its policy and sees which is preferred,
y ~ Bernoulli(σ(u_t(x, a) − u_t(x, a'))) with utilities u_t(x, a) = ⟨θ_t, φ(x, a)⟩ (Eqs. 6 and 7). θ_t moves on a
sphere, so that drift changes which action is best and never how much there is to win. Time runs in phases: when
one begins, θ̂ is fitted on a sliding window (Eqs. 20-22) and the policy becomes π ∝ π_ref exp(⟨θ̂, φ⟩/β) (Eq. 12);
that policy acts for the phase. DPO keeps π_ref. EvoDPO replaces it by the policy after every phase, if the gate of
Eqs. 3 and 5 lets it, with a support floor f: π becomes (1 − f) π + f/K (Assumption 2).

Regret is exact, an expectation over contexts and actions (Eq. 9); only the data are sampled. Per round it splits into
learning error and reference bias, with the comparator π_kl ∝ π_ref exp(u_t/β) (Eqs. 11 and 13):

    V_t(π*) − V_t(π)  =  [V_t(π_kl) − V_t(π)]  +  [V_t(π*) − V_t(π_kl)]

Policies are tables of log-probabilities (seeds, contexts, actions): a reference that compounds without a floor falls
below what a float holds. All methods meet the same features, paths and draws. `docs/theory.md` says what came out.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from scipy.special import expit

from atlas_gym.intervals import mean_interval
from atlas_gym.seeding import stream

Array = npt.NDArray[np.float64]

ACTIONS, DIMENSION, CONTEXTS = 5, 5, 20
"""K, d and the number of contexts, which are equally likely."""
NORM = 2.0
"""‖θ_t‖; makes preferences up to σ(4) = 0.98 sure."""
RIDGE = 1.0
"""λ of the estimator."""
GATE_CONTEXTS = 32
"""Size of the gate subset G_k: contexts of rounds drawn at random from the window."""
HORIZONS = (500, 1000, 2000, 4000, 8000)


@dataclass(frozen=True)
class Drift:
    """How θ moves over a horizon."""

    kind: Literal["none", "rotation", "walk", "jumps"] = "rotation"
    """`rotation`: along one great circle. `walk`: a fresh direction in every round. `jumps`: eight sudden turns."""
    angle: float = 4 * np.pi
    """Angle swept over the whole horizon, radians. The variation budget V_T of Eq. 8 is about NORM · angle."""
    per_round: bool = False  # true sweeps `angle` in every round, which makes V_T proportional to T


@dataclass(frozen=True)
class Method:
    """DPO with a reference that stays or moves. The defaults are EvoDPO without a gate."""

    moves: bool = True  # true replaces the reference after every phase; False keeps it (DPO, EvoTune)
    stale: bool = False  # true begins with the optimum of round 0, floored; False with the uniform policy
    floor: float = 0.05  # share f of a reference's probability that is spread evenly, in [0, 1)
    beta: float = 1.0  # weight of the divergence from the reference, in units of utility
    phases: int = 2  # phases per window of the estimator
    tolerance: float = -np.inf  # ε_s of Eq. 5, in units of utility; the gate grades by the true mean utility
    max_kl: float = np.inf  # δ_H of Eq. 5, in nats


class Bandit(NamedTuple):
    """Bandits of several seeds, with all that is random about them drawn beforehand."""

    features: Array  # φ(x, a), (seeds, contexts, actions, dimension), unit norm
    path: Array  # θ_t, (seeds, horizon, dimension)
    contexts: npt.NDArray[np.int64]  # index of x_t, (seeds, horizon)
    action_draws: Array  # uniform draws that choose the two actions, (seeds, horizon, 2)
    label_draws: Array  # uniform draws that choose the label, (seeds, horizon)
    seeds: tuple[int, ...]


class Trace(NamedTuple):
    """Record of a method on a batch of bandits."""

    regret: Array  # V_t(π*) − V_t(π), (seeds, horizon)
    learning: Array  # its learning error, (seeds, horizon)
    bias: Array  # its reference bias, (seeds, horizon)
    promoted: npt.NDArray[np.bool_]  # whether a phase's policy became the reference, (seeds, phases − 1)
    kl: Array  # KL(policy ‖ reference) of each decision, nats, (seeds, phases − 1)


def make_bandits(horizon: int, drift: Drift, seeds: Sequence[int], contexts: int = CONTEXTS) -> Bandit:
    """The bandits of these seeds; features and θ_0 depend on the seed alone, the rest on the horizon too."""
    shape, parts = (contexts, ACTIONS, DIMENSION), []
    for seed in seeds:
        fixed = stream(seed, "regret", "bandit", *shape)
        features, start = unit(fixed.standard_normal(shape)), unit(fixed.standard_normal(DIMENSION)) * NORM
        rounds = stream(seed, "regret", "rounds", horizon, *shape)
        directions = rounds.standard_normal((horizon, DIMENSION))
        draws = rounds.integers(contexts, size=horizon), rounds.random((horizon, 2)), rounds.random(horizon)
        parts.append((features, start, directions, *draws))
    stacked = [np.stack(part) for part in zip(*parts, strict=True)]
    features, starts, directions, shown, actions, labels = stacked
    return Bandit(features, parameter_path(drift, starts, directions), shown, actions, labels, tuple(seeds))


def parameter_path(drift: Drift, start: Array, directions: Array) -> Array:
    """θ_t, shape (seeds, horizon, dimension).

    `start` (seeds, dimension) is θ_0, whose norm is kept. `directions` (seeds, horizon, dimension) are standard
    normal draws: θ turns in the plane of itself and one of them.
    """
    horizon = directions.shape[1]
    total, turns = drift.angle * (horizon if drift.per_round else 1), np.zeros(horizon)
    if drift.kind in ("rotation", "walk"):
        turns[1:] = total / max(1, horizon - 1)
    elif drift.kind == "jumps":
        turns[np.arange(1, 9) * horizon // 9] = total / 8
    norm = np.linalg.norm(start, axis=-1, keepdims=True)

    def turned(point: Array, direction: Array, angle: float) -> Array:
        axis = unit(point)
        tangent = unit(direction - (direction * axis).sum(-1, keepdims=True) * axis)
        return norm * unit(np.cos(angle) * axis + np.sin(angle) * tangent)

    if drift.kind == "rotation":
        return np.stack([turned(start, directions[:, 0], angle) for angle in np.cumsum(turns)], axis=1)
    path = np.repeat(start[:, None], horizon, axis=1)
    for t in range(1, horizon):
        path[:, t] = turned(path[:, t - 1], directions[:, t], turns[t]) if turns[t] else path[:, t - 1]
    return path


def unit(vectors: Array) -> Array:
    """Vectors along the last axis, scaled to norm 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def utilities(features: Array, parameters: Array) -> Array:
    """⟨θ, φ(x, a)⟩ for parameters (seeds, n, dimension), shape (seeds, n, contexts, actions)."""
    seeds, contexts, actions, dimension = features.shape
    flat = features.reshape(seeds, contexts * actions, dimension)
    return (parameters @ flat.transpose(0, 2, 1)).reshape(seeds, -1, contexts, actions)


def fit_logistic(differences: Array, labels: Array, ridge: float, start: Array) -> Array:
    """θ̂ of Eq. 21: argmin Σ_s [log(1 + exp(z_sᵀθ)) − y_s z_sᵀθ] + λ/2 ‖θ‖², by Newton steps with halving.

    `differences` are z_s = φ(x, a) − φ(x, a'), (seeds, window, dimension), `labels` y_s in {0, 1}, (seeds, window),
    `start` the first guess, (seeds, dimension). RuntimeError if it does not converge.
    """

    def loss(theta: Array) -> Array:
        margins = (differences @ theta[..., None])[..., 0]
        return (np.logaddexp(0.0, margins) - labels * margins).sum(-1) + ridge / 2 * (theta**2).sum(-1)

    theta = start.copy()
    for _ in range(100):
        p = expit((differences @ theta[..., None])[..., 0])
        gradient = ((p - labels)[:, None] @ differences)[:, 0] + ridge * theta
        active = np.linalg.norm(gradient, axis=-1) > 1e-9
        if not active.any():
            return theta
        weighted = differences * (p * (1.0 - p))[..., None]
        hessian = weighted.transpose(0, 2, 1) @ differences + ridge * np.eye(theta.shape[-1])
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0] * active[:, None]
        size, value, promised = np.ones(len(theta)), loss(theta), (gradient * step).sum(-1)
        rounding = 1e-10 * (1.0 + np.abs(value))  # near the minimum the promised decrease is below it
        while (short := loss(theta - size[:, None] * step) > value - 1e-4 * size * promised + rounding).any():
            size[short] /= 2
        theta = theta - size[:, None] * step
    raise RuntimeError("the logistic regression did not converge")


def tilted(log_reference: Array, values: Array, beta: float) -> Array:
    """π ∝ π_ref exp(u/β): Eq. 11 with the true utilities, Eq. 12 with the estimated ones."""
    logits = log_reference + values / beta
    # Reductions along a short last axis are slow in numpy: three times faster action by action and in einsum.
    shifted = logits - largest(logits)[..., None]
    return shifted - np.log(np.einsum("...a->...", np.exp(shifted)))[..., None]


def largest(values: Array) -> Array:
    """Maximum over the last axis."""
    return np.maximum.reduce([values[..., action] for action in range(values.shape[-1])])


def floored(log_policy: Array, floor: float) -> Array:
    """(1 − f) π + f/K, as logarithms."""
    if floor == 0.0:
        return log_policy
    return np.logaddexp(np.log1p(-floor) + log_policy, np.log(floor / log_policy.shape[-1]))


def expected(log_policy: Array, values: Array) -> Array:
    """E_{a~π} of the values, over the last axis."""
    return np.einsum("...a,...a->...", np.exp(log_policy), values)


def divergence(log_p: Array, log_q: Array) -> Array:
    """KL(p ‖ q) in nats over the last axis; actions with p = 0 count nothing."""
    with np.errstate(invalid="ignore"):  # −inf − (−inf) where p = 0
        return np.where(np.isneginf(log_p), 0.0, np.exp(log_p) * (log_p - log_q)).sum(-1)


def window_length(horizon: int) -> int:
    """Rounds W in the estimator's window: of order T^κ with κ = 2/3, which balances Eq. 15 for a constant V_T."""
    return round(20 + 0.5 * horizon ** (2 / 3))


def simulate(bandit: Bandit, method: Method) -> Trace:
    """Play the whole horizon, for all seeds and all rounds of a phase at once."""
    n, horizon = bandit.contexts.shape
    window = window_length(horizon)
    length = max(1, window // method.phases)
    rows = np.arange(n)[:, None]
    gate_draws = [stream(seed, "regret", "gate", horizon) for seed in bandit.seeds]
    differences, labels = np.zeros((n, horizon, bandit.features.shape[-1])), np.zeros((n, horizon))
    regret, learning, bias = (np.zeros((n, horizon)) for _ in range(3))
    promotions, kls = [], []

    first = utilities(bandit.features, bandit.path[:, :1])[:, 0]
    reference = np.full(first.shape, -np.log(first.shape[-1]))
    if method.stale:
        best = np.arange(first.shape[-1]) == first.argmax(-1)[..., None]
        reference = floored(np.where(best, 0.0, -np.inf), method.floor)
    estimate = np.zeros((n, bandit.features.shape[-1]))

    for start in range(0, horizon, length):
        phase, past = slice(start, min(start + length, horizon)), slice(max(0, start - window), start)
        if start:
            estimate = fit_logistic(differences[:, past], labels[:, past], RIDGE, estimate)
        policy = tilted(reference, utilities(bandit.features, estimate[:, None])[:, 0], method.beta)

        true = utilities(bandit.features, bandit.path[:, phase])
        comparator = tilted(reference[:, None], true, method.beta)
        value = expected(policy[:, None], true).mean(-1)
        regularised, optimum = expected(comparator, true).mean(-1), largest(true).mean(-1)
        regret[:, phase], learning[:, phase] = optimum - value, regularised - value
        bias[:, phase] = optimum - regularised

        shown = bandit.contexts[:, phase]
        cumulative = np.cumsum(np.exp(policy), axis=-1)[rows, shown]
        above = bandit.action_draws[:, phase, :, None] > cumulative[:, :, None]
        actions = np.minimum(above.sum(-1), first.shape[-1] - 1)  # a sum of 1 − 1e-16 must not overflow
        chosen = bandit.features[rows[..., None], shown[..., None], actions]
        differences[:, phase] = chosen[:, :, 0] - chosen[:, :, 1]
        wins = expit((bandit.path[:, phase] * differences[:, phase]).sum(-1))
        labels[:, phase] = bandit.label_draws[:, phase] < wins

        if start:
            proposed = floored(policy, method.floor)
            drawn = np.stack([draws.integers(past.start, start, GATE_CONTEXTS) for draws in gate_draws])
            subset = np.take_along_axis(bandit.contexts, drawn, axis=1)
            gain = expected(proposed, true[:, 0]) - expected(reference, true[:, 0])
            kl = divergence(proposed, reference)
            passed = np.take_along_axis(gain, subset, axis=1).mean(-1) >= method.tolerance
            passed &= np.take_along_axis(kl, subset, axis=1).mean(-1) <= method.max_kl
            passed &= method.moves
            reference = np.where(passed[:, None, None], proposed, reference)
            promotions.append(passed)
            kls.append(kl.mean(-1))
    return Trace(regret, learning, bias, np.stack(promotions, 1), np.stack(kls, 1))


MAIN = {
    "DPO, fixed uniform reference": Method(moves=False),
    "DPO, fixed stale reference": Method(moves=False, stale=True),
    "EvoDPO": Method(),
    "EvoDPO, gated (ε_s 0.05, δ_H 0.5)": Method(tolerance=0.05, max_kl=0.5),
    "EvoDPO, frozen gate (δ_H 0.02)": Method(max_kl=0.02),
    "EvoDPO, no floor": Method(floor=0.0),
}
DRIFTS = {
    "no drift": Drift("none"),
    "random walk, 4π": Drift("walk"),
    "8 jumps, 4π": Drift("jumps"),
    "V = 0.05 T": Drift(angle=0.025, per_round=True),
}
BETAS = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0)


def regrets(method: Method, drift: Drift, seeds: int, name: str) -> Array:
    """R_T of Eq. 14 for every horizon and seed, shape (horizons, seeds); prints a row with the slope over T."""
    traces = [simulate(make_bandits(horizon, drift, range(seeds)), method) for horizon in HORIZONS]
    found = np.stack([trace.regret.sum(1) for trace in traces])
    slope = mean_interval(np.polyfit(np.log(HORIZONS), np.log(found), 1)[0])
    last, means = traces[-1], "".join(f"{value:8.0f}" for value in found.mean(1))
    bias = last.bias.sum() / last.regret.sum()
    shares = f"{bias:5.2f}   {last.promoted.mean():5.2f}   {last.kl.mean():6.3f}"
    print(f"{name:44}{means}   {slope:.2f}   {shares}")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the tables and draw the figure."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.theory")
    parser.add_argument("--seeds", type=int, default=40, help="bandits per row, at least 2 (default 40)")
    parser.add_argument("--out", type=Path, default=Path("runs/theory.png"), help="the figure")
    options = parser.parse_args(arguments)
    heads = "".join(f"{horizon:8}" for horizon in HORIZONS)
    print(f"{'regret at T =':44}{heads}   slope [95 %]        bias   moved   KL")
    main_rows = {name: regrets(method, Drift(), options.seeds, name) for name, method in MAIN.items()}
    for drift_name, drift in DRIFTS.items():
        for name in ("DPO, fixed uniform reference", "DPO, fixed stale reference", "EvoDPO"):
            regrets(MAIN[name], drift, options.seeds, f"{drift_name}: {name}")
    print(f"\n{f'regret at T = {HORIZONS[-1]} over β':44}" + "".join(f"{beta:8}" for beta in BETAS))
    bandit, over_beta = make_bandits(HORIZONS[-1], Drift(), range(options.seeds)), {}
    for phases in (2, 16):
        for label, moves in (("DPO", False), ("EvoDPO", True)):
            methods = [Method(moves=moves, beta=beta, phases=phases) for beta in BETAS]
            found = np.stack([simulate(bandit, method).regret.sum(1) for method in methods])
            over_beta[f"{label}, {phases} phases per window"] = found
            print(f"{label}, {phases:2} phases per window".ljust(44), *(f"{r:7.0f}" for r in found.mean(1)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw(main_rows, over_beta, options.out)


def draw(main_rows: dict[str, Array], over_beta: dict[str, Array], path: Path) -> None:
    """Regret over the horizon, and over β; bars are 95 % intervals over seeds."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    style = {"stale": ":", "gated": "-.", "frozen": (0, (1, 3)), "no floor": "--", "16": "--"}
    for axes, x, lines in ((left, HORIZONS, main_rows), (right, BETAS, over_beta)):
        for name, found in lines.items():
            colour = "tab:red" if name.startswith("EvoDPO") else "tab:blue"
            line = next((s for word, s in style.items() if word in name), "-")
            bars = [mean_interval(row).half_width for row in found]
            axes.errorbar(x, found.mean(1), bars, label=name, color=colour, ls=line, marker="o", ms=3)
        axes.set(xscale="log", yscale="log", ylabel="cumulative regret")
        axes.set_xticks(x, [str(value) for value in x])
        axes.set_yticks(HORIZONS, [str(value) for value in HORIZONS])
        axes.minorticks_off()
        axes.legend(fontsize=7, frameon=False)
    left.set(xlabel="T", title="rotation by 4π, β = 1, floor 0.05")
    right.set(xlabel="β", title=f"the same at T = {HORIZONS[-1]}, over β")
    figure.savefig(path, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    main()
