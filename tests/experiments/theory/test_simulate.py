"""The simulation against a slow, plain one, and the identities it has to keep."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from atlas_gym.experiments.theory import policies
from atlas_gym.experiments.theory.learner import Learner, Window
from atlas_gym.experiments.theory.model import DRIFT_KINDS, BanditSettings, Drift, make_bandits
from atlas_gym.experiments.theory.simulate import simulate
from atlas_gym.trainers.evodpo.references import ReferenceRule
from atlas_gym.trainers.evodpo.settings import GateSettings

RULES = [
    ReferenceRule("fixed"),
    ReferenceRule("every_phase"),
    ReferenceRule("averaged"),
    ReferenceRule("gated"),
]
WINDOW = Window(offset=40, scale=0.0, phases=2)


def softmax(values):
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def plain_evodpo(bandit, learner, horizon):
    """EvoDPO for the first seed, one context and one round at a time, with scikit-learn's solver."""
    features, thetas, contexts = bandit.features[0], bandit.parameters[0], bandit.contexts[0]
    window, phase = learner.window.length(horizon), learner.window.phase_length(horizon)
    reference = np.full(features.shape[:2], 1 / features.shape[1])
    estimate, pairs, labels, rows = np.zeros(features.shape[2]), [], [], []
    for t in range(horizon):
        if t % phase == 0 and t > 0:
            recent = slice(max(0, t - window), t)
            model = LogisticRegression(
                C=1 / learner.ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-12
            )
            estimate = model.fit(np.array(pairs[recent]), np.array(labels[recent])).coef_[0]
        if t % phase == 0:
            policy = np.array(
                [
                    softmax(np.log(r) + f @ estimate / learner.beta)
                    for r, f in zip(reference, features, strict=True)
                ]
            )
        row = []
        for x, phi in enumerate(features):
            u = phi @ thetas[t]
            comparator = softmax(np.log(reference[x]) + u / learner.beta)
            row.append([u.max() - policy[x] @ u, comparator @ u - policy[x] @ u, u.max() - comparator @ u])
        rows.append(np.mean(row, axis=0))
        picks = [
            int(np.searchsorted(np.cumsum(policy[contexts[t]]), draw)) for draw in bandit.action_draws[0, t]
        ]
        pairs.append(features[contexts[t], picks[0]] - features[contexts[t], picks[1]])
        labels.append(bandit.label_draws[0, t] < 1 / (1 + np.exp(-pairs[-1] @ thetas[t])))
        if (t + 1) % phase == 0 and t >= phase:
            reference = (1 - learner.floor) * policy + learner.floor / features.shape[1]
    return np.array(rows).T


def test_it_agrees_with_a_plain_simulation():
    bandit = make_bandits(BanditSettings(horizon=150, contexts=4), [3, 4])
    learner = Learner(beta=0.5, window=WINDOW)
    trace = simulate(bandit, learner)
    regret, learning, bias = plain_evodpo(bandit, learner, 150)
    np.testing.assert_allclose(trace.regret[0], regret, atol=1e-6)
    np.testing.assert_allclose(trace.learning[0], learning, atol=1e-6)
    np.testing.assert_allclose(trace.bias[0], bias, atol=1e-6)


@pytest.mark.parametrize("kind", DRIFT_KINDS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_the_decomposition_sums_to_the_regret(kind, rule, floor):
    """Eq. 13, with the bias computed a second way: β [KL(π*‖ref) − KL(π*‖π_kl) − KL(π_kl‖ref)]."""
    phases = []
    bandit = make_bandits(BanditSettings(horizon=200, drift=Drift(kind)), range(3))
    learner = Learner(rule=rule, floor=floor, beta=0.7, window=WINDOW)
    trace = simulate(
        bandit, learner, [lambda run: phases.append((run.rounds.start, run.reference, run.policy))]
    )
    np.testing.assert_allclose(trace.learning + trace.bias, trace.regret, rtol=0, atol=1e-9)
    assert trace.regret.min() >= 0
    assert trace.bias.min() >= -1e-12
    for start, reference, policy in phases:
        true = bandit.utilities(start, start + 1)[:, 0]
        best, comparator = policies.greedy(true), policies.tilted(reference, true, 0.7)
        bias = 0.7 * (
            policies.kl(best, reference) - policies.kl(best, comparator) - policies.kl(comparator, reference)
        )
        learning = policies.expected(comparator, true) - policies.expected(policy, true)
        np.testing.assert_allclose((bias + learning).mean(-1), trace.regret[:, start], atol=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_seed_does_not_feel_its_batch(rule):
    settings, learner = BanditSettings(horizon=150), Learner(rule=rule, window=WINDOW)
    together = simulate(make_bandits(settings, range(4)), learner)
    alone = [simulate(make_bandits(settings, [seed]), learner) for seed in range(4)]
    np.testing.assert_allclose(together.regret, np.concatenate([t.regret for t in alone]), atol=1e-12)
    np.testing.assert_array_equal(together.weight, np.concatenate([t.weight for t in alone]))


def test_a_frozen_gate_is_dpo_and_an_open_one_is_evodpo():
    bandit = make_bandits(BanditSettings(horizon=300), range(3))
    frozen = Learner(rule=ReferenceRule("gated"), gate=GateSettings(max_kl=0.0), window=WINDOW)
    found = simulate(bandit, frozen)
    assert (found.weight == 0).all()
    np.testing.assert_array_equal(
        found.regret, simulate(bandit, replace(frozen, rule=ReferenceRule("fixed"))).regret
    )
    wide = replace(frozen, gate=GateSettings(min_gain=-np.inf, max_kl=np.inf))
    everything = simulate(bandit, replace(frozen, rule=ReferenceRule("every_phase")))
    np.testing.assert_array_equal(simulate(bandit, wide).regret, everything.regret)


def test_the_floor_bounds_every_reference_and_its_absence_does_not():
    bandit = make_bandits(BanditSettings(horizon=400, drift=Drift("none")), range(3))
    for rule in (ReferenceRule("every_phase"), ReferenceRule("averaged"), ReferenceRule("gated")):
        with_floor = simulate(bandit, Learner(rule=rule, floor=0.05, beta=0.2))
        assert (with_floor.lowest >= np.log(0.05 / 5) - 1e-9).all()
    assert (simulate(bandit, Learner(floor=0.0, beta=0.2)).lowest < np.log(1e-6)).all()


def test_a_known_parameter_leaves_no_learning_error_without_drift():
    bandit = make_bandits(BanditSettings(horizon=200, drift=Drift("none")), range(2))
    trace = simulate(bandit, Learner(oracle=True, window=WINDOW))
    np.testing.assert_allclose(trace.learning[:, 20:], 0.0, atol=1e-12)
    assert np.abs(trace.learning[:, :20]).min() > 0  # before the first refit nothing is known


def test_a_collapsing_policy_loses_the_diversity_of_its_pairs():
    bandit = make_bandits(BanditSettings(horizon=1000, drift=Drift("none")), range(3))
    collapsed, uniform = (
        simulate(bandit, Learner(rule=rule, floor=0.0)).diversity[:, -3:]
        for rule in (ReferenceRule("every_phase"), ReferenceRule("fixed"))
    )
    assert collapsed.max() < uniform.min() / 5
