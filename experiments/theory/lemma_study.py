"""The lemmas on many random instances, what breaks when an assumption is broken, and two limits of the theory.

An *instance* is one simulated path: random sizes, drift, norm, β, floor, window and rule, and one seed. On
each, every inequality is checked wherever it speaks (`PathChecks`) and not one may fail. A check that
cannot fail proves nothing, so each assumption is then broken on purpose, by handing the inequality a
constant that the instance does not satisfy, and the violations are counted.

Lemma A.3 needs the best action to lead by γ in every round. A best action can then only be overtaken by a
step of at least γ/(2 φ_max): slow drift with a margin never switches, and drift that switches slowly has no
margin. `margins_along` measures which of the two a drift does.

A reference that keeps a floor for ever costs something for ever: without drift and with θ known, EvoDPO
settles at the fixed point of π_ref ← floor(π_ref exp(u/β)), whose regret per round is the slope of a term
linear in T. `floor_prices` finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from atlas_gym.experiments.theory import inequalities, policies
from atlas_gym.experiments.theory.estimator import diversity
from atlas_gym.experiments.theory.inequalities import PathChecks, Sides, switches_and_margin, violated
from atlas_gym.experiments.theory.learner import Learner, Window
from atlas_gym.experiments.theory.model import (
    DRIFT_KINDS,
    FEATURE_BOUND,
    Array,
    Bandit,
    BanditSettings,
    Drift,
    make_bandits,
    utilities,
    variation,
)
from atlas_gym.experiments.theory.settings import BETAS, DRIFTS, FLOORS
from atlas_gym.experiments.theory.simulate import simulate
from atlas_gym.seeding import stream
from atlas_gym.trainers.evodpo.references import ReferenceRule

BATCH = 25
"""Instances that share their sizes, so that they can be simulated together."""
_FLOOR_HORIZON = 1000
"""Rounds of the per-round runs in which the floor's price has to show."""
_REFRESHES = 2000
"""Phases in which a reference with a floor comes to its fixed point."""


def random_batch(number: int) -> pd.DataFrame:
    """Check everything on the `number`-th batch of random instances."""
    rng = stream(number, "regret", "lemma batch")
    settings = _random_settings(rng)
    checks = PathChecks()
    bandit = make_bandits(settings, range(number * BATCH, (number + 1) * BATCH))
    simulate(bandit, _random_learner(rng), [checks])
    floor = float(rng.choice([0.01, 0.05, 0.2]))
    checks.add("Eq. 16 bias, summed", _per_round_bias(bandit, floor, price=True))
    return checks.tally


def broken_assumptions(instances: int) -> list[dict[str, Any]]:
    """Break each assumption on `instances` bandits (seeds that the main study does not use).

    Of each: the `inequality`, `how` its assumption was broken, and in how many of the `instances` it failed
    (`violations`).
    """
    seeds = range(10_000, 10_000 + instances)
    breaks: list[tuple[str, str, Callable[[range], Sides]]] = [
        ("A.3 switching", "no margin: θ chatters across a decision boundary, γ = 0.1 claimed", _no_margin),
        ("A.4 local distance", "the estimator remembers twice the claimed window", _long_memory),
        ("A.4 summed variation", "half the true V_T claimed", _half_budget),
        ("A.5 noise", "labels follow another parameter: the noise has a mean", _wrong_annotator),
        ("A.6 error, realised noise", "no floor, collapsed policy; the c₀ of a uniform policy claimed", _collapse),
        ("A.7 divergence", "the comparator is built on another reference", _other_reference),
        ("Eq. 16 bias step", "no floor; p_min = 0.01 claimed, β = 0.3", _no_support),
        ("Eq. 16 bias, summed", "floor 0.05, its price log(1/(1−f)) per round left out", _free_floor),
    ]  # fmt: skip
    rows = []
    for inequality, how, sides in breaks:
        violations = int(sum(map(np.any, violated(sides(seeds)))))
        rows.append({"inequality": inequality, "how": how, "violations": violations, "instances": instances})
    return rows


def _random_settings(rng: np.random.Generator) -> BanditSettings:
    kind = DRIFT_KINDS[int(rng.integers(len(DRIFT_KINDS)))]
    drift = Drift(kind, angle=float(rng.uniform(0.5, 6 * np.pi)), jumps=int(rng.integers(1, 12)))
    return BanditSettings(
        horizon=int(rng.integers(100, 400)),
        drift=drift,
        actions=int(rng.integers(2, 7)),
        dimension=int(rng.integers(2, 7)),
        contexts=int(rng.integers(1, 9)),
        parameter_norm=float(rng.uniform(0.5, 4.0)),
    )


def _random_learner(rng: np.random.Generator) -> Learner:
    rules = (
        ReferenceRule("fixed"),
        ReferenceRule("every_phase"),
        ReferenceRule("averaged", mixing=float(rng.uniform(0.1, 0.9))),
        ReferenceRule("gated"),
    )
    return Learner(
        rule=rules[int(rng.integers(len(rules)))],
        beta=float(np.exp(rng.uniform(np.log(0.05), np.log(3.0)))),
        floor=float(rng.choice([0.0, 1e-3, 0.05, 0.3])),
        window=Window(offset=float(rng.integers(10, 80)), phases=int(rng.integers(1, 5))),
        ridge=float(rng.uniform(0.2, 3.0)),
    )


def _per_round_bias(bandit: Bandit, floor: float, price: bool) -> Sides:
    """Eq. 16's setting to the letter: θ_t known, reference = floored comparator of the round before."""
    window = Window(offset=1.0, scale=0.0, phases=1)
    run = simulate(bandit, Learner(floor=floor, oracle=True, window=window))
    switches, _ = switches_and_margin(bandit)
    actions = bandit.features.shape[2]
    return inequalities.summed_bias(run.bias[:, 1:], switches.mean(1), floor, actions, 1.0, price)


def _no_margin(seeds: range) -> Sides:
    settings = BanditSettings(horizon=400, contexts=4, drift=Drift("rotation", angle=np.pi))
    bandit = make_bandits(settings, seeds)
    chatter = bandit.parameters.copy()
    for seed, best in enumerate(bandit.utilities(0, 400).argmax(-1)):
        crossing = np.flatnonzero((np.diff(best, axis=0) != 0).any(1))[0]
        chatter[seed, 0::2], chatter[seed, 1::2] = bandit.parameters[seed, crossing : crossing + 2]
    chattering = replace(bandit, parameters=chatter)
    switches, _ = switches_and_margin(chattering)
    return inequalities.switching_budget(switches.max(1), variation(chatter), np.full(len(chatter), 0.1))


def _long_memory(seeds: range) -> Sides:
    path = make_bandits(BanditSettings(horizon=400), seeds).parameters
    local = inequalities.local_variations(path, 50)[:, 300]
    return inequalities.local_distance(path[:, 200:300], path[:, 300], local)


def _half_budget(seeds: range) -> Sides:
    path = make_bandits(BanditSettings(horizon=400, drift=Drift("walk")), seeds).parameters
    return inequalities.summed_local_variation(path, 50, variation(path) / 2)


def _wrong_annotator(seeds: range) -> Sides:
    bandit, differences, now = _stationary_pairs(seeds, 400)
    wrong = make_bandits(bandit.settings, range(seeds.start + 10**6, seeds.stop + 10**6)).parameters
    labels = inequalities.preference_probability(wrong, differences)
    noise = inequalities.noise_sum(differences, labels, now)
    return inequalities.self_normalised(differences, noise, 1.0, 0.01)


def _stationary_pairs(seeds: range, rounds: int) -> tuple[Bandit, Array, Array]:
    """Uniform pairs of actions without drift: bandit, z (seeds, rounds, d) and θ (seeds, rounds, d)."""
    bandit = make_bandits(BanditSettings(horizon=rounds, drift=Drift("none")), seeds)
    rows = np.arange(len(bandit.seeds))[:, None]
    picks = (bandit.action_draws * bandit.features.shape[2]).astype(int)
    first, second = (bandit.features[rows, bandit.contexts, picks[..., n]] for n in (0, 1))
    return bandit, first - second, bandit.parameters


def _collapse(seeds: range) -> Sides:
    """EvoDPO without a floor draws the same action twice in nearly every pair: z = 0, nothing is learnt."""
    _, uniform, _ = _stationary_pairs(seeds, 400)
    bandit = make_bandits(BanditSettings(horizon=2000, drift=Drift("none")), seeds)
    run = simulate(bandit, Learner(floor=0.0, beta=0.3))
    now, past = bandit.parameters[:, run.rounds.start], bandit.parameters[:, run.window]
    noise = inequalities.noise_sum(run.differences[:, run.window], run.labels[:, run.window], past)
    still = np.zeros(len(now))
    size = np.linalg.norm(noise, axis=-1)
    return inequalities.estimation_error(run, now, size, still, diversity(uniform))


def _other_reference(seeds: range) -> Sides:
    bandit = make_bandits(BanditSettings(horizon=2, drift=Drift("none")), seeds)
    true = bandit.utilities(0, 1)[:, 0]
    estimate = 0.9 * bandit.parameters[:, 0]
    fresh = policies.with_floor(policies.tilted(policies.uniform(true.shape), true, 1.0), 0.05)
    estimated = utilities(bandit.features, estimate[:, None])[:, 0]
    ours = policies.tilted(policies.uniform(true.shape), estimated, 1.0)
    error = np.linalg.norm(estimate - bandit.parameters[:, 0], axis=-1)
    return inequalities.divergence(policies.kl(policies.tilted(fresh, true, 1.0), ours), error, 1.0)


def _no_support(seeds: range) -> Sides:
    bandit = make_bandits(BanditSettings(horizon=2000), seeds)
    run = simulate(bandit, Learner(floor=0.0, beta=0.3))
    return inequalities.bias_step(run.bias, np.full(len(run.bias), np.log(0.01)), 0.3)


def _free_floor(seeds: range) -> Sides:
    settings = BanditSettings(horizon=_FLOOR_HORIZON, drift=Drift("none"))
    return _per_round_bias(make_bandits(settings, seeds), 0.05, price=False)


def margins_along(seeds: int, horizons: Sequence[int]) -> list[dict[str, Any]]:
    """Lemma A.3 under rotation at each horizon, and under jumps at the first; medians over seeds.

    Of each: B_T as the changes of the optimal action (`switches`, mean over contexts), γ as the smallest lead of a best
    action in any round and context (`margin`), 2 φ_max V_T/γ (`bound`), and the largest ‖θ_{t+1} − θ_t‖ (`step`).
    """
    found = []
    for name, horizon in [*(("rotation, 4π", horizon) for horizon in horizons), ("8 jumps, 4π", horizons[0])]:
        bandit = make_bandits(BanditSettings(horizon, DRIFTS[name]), range(seeds))
        switches, margin = switches_and_margin(bandit)
        bound = 2 * FEATURE_BOUND * variation(bandit.parameters) / margin
        steps = np.linalg.norm(np.diff(bandit.parameters, axis=1), axis=-1).max(1)
        measured = {"switches": switches.mean(1), "margin": margin, "bound": bound, "step": steps}
        medians = {key: float(np.median(values)) for key, values in measured.items()}
        found.append({"drift": name, "horizon": horizon, **medians})
    return found


def floor_prices(seeds: int) -> list[dict[str, float]]:
    """The price of every floor of the sweep at β = 1, and of floor 0.05 at every β.

    `regret`: per round at the fixed point, mean over seeds and contexts; `share`: the same over that of DPO from the
    uniform reference, θ known.
    """
    utilities = make_bandits(BanditSettings(horizon=2), range(seeds)).utilities(0, 1)[:, 0]
    pairs = [(floor, 1.0) for floor in FLOORS if floor > 0] + [(0.05, beta) for beta in BETAS if beta != 1.0]
    return [{"floor": floor, "beta": beta, **_price(utilities, floor, beta)} for floor, beta in pairs]


def _price(utilities: np.ndarray, floor: float, beta: float) -> dict[str, float]:
    start = reference = policies.uniform(utilities.shape)
    for _ in range(_REFRESHES):
        reference = policies.with_floor(policies.tilted(reference, utilities, beta), floor)
    ours, dpo = (_regret(utilities, policies.tilted(r, utilities, beta)) for r in (reference, start))
    return {"regret": ours, "share": ours / dpo}


def _regret(utilities: np.ndarray, log_policy: np.ndarray) -> float:
    return float((policies.largest(utilities) - policies.expected(log_policy, utilities)).mean())
