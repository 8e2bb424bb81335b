"""The simulation of the theory against slow, plain computations, and the identities it has to keep."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax, rel_entr
from sklearn.linear_model import LogisticRegression

from atlas_gym.experiments import theory
from atlas_gym.experiments.theory import Drift, Method, make_bandits, simulate

METHODS = {
    "DPO": Method(moves=False, beta=0.7),
    "stale": Method(moves=False, stale=True, beta=0.7),
    "EvoDPO": Method(beta=0.5),
    "gated": Method(tolerance=0.05, max_kl=0.5, beta=0.7),
    "no floor": Method(floor=0.0, beta=0.7),
}


def softmax(values):
    return np.exp(log_softmax(values))


def solve(differences, labels, ridge=1.0):
    """The estimator by scikit-learn."""
    model = LogisticRegression(C=1 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    return model.fit(np.array(differences), np.array(labels)).coef_[0]


def plain_evodpo(bandit, method, horizon):
    """Regret, learning error and bias of the first seed, one context and one round at a time."""
    features, thetas, contexts = bandit.features[0], bandit.path[0], bandit.contexts[0]
    window = theory.window_length(horizon)
    phase = window // method.phases
    reference = np.full(features.shape[:2], 1 / features.shape[1])
    estimate, pairs, labels, rows = np.zeros(features.shape[2]), [], [], []
    for t in range(horizon):
        if t % phase == 0:
            if t:
                recent = slice(max(0, t - window), t)
                estimate = solve(pairs[recent], labels[recent])
            logits = np.log(reference) + features @ estimate / method.beta
            policy = np.array([softmax(row) for row in logits])
        row = []
        for x, phi in enumerate(features):
            u = phi @ thetas[t]
            comparator = softmax(np.log(reference[x]) + u / method.beta)
            row.append([u.max() - policy[x] @ u, comparator @ u - policy[x] @ u, u.max() - comparator @ u])
        rows.append(np.mean(row, axis=0))
        cumulative = np.cumsum(policy[contexts[t]])
        first, second = (int(np.searchsorted(cumulative, draw)) for draw in bandit.action_draws[0, t])
        pairs.append(features[contexts[t], first] - features[contexts[t], second])
        labels.append(bandit.label_draws[0, t] < 1 / (1 + np.exp(-pairs[-1] @ thetas[t])))
        if (t + 1) % phase == 0 and t >= phase:
            reference = (1 - method.floor) * policy + method.floor / features.shape[1]
    return np.array(rows).T


def test_it_agrees_with_a_plain_simulation():
    bandit = make_bandits(150, Drift(), [3, 4], contexts=4)
    trace = simulate(bandit, METHODS["EvoDPO"])
    plain = plain_evodpo(bandit, METHODS["EvoDPO"], 150)
    np.testing.assert_allclose([trace.regret[0], trace.learning[0], trace.bias[0]], plain, atol=1e-6)


@pytest.mark.parametrize("scale", [0.3, 3.0])
@pytest.mark.parametrize("start", [0.0, 200.0])
def test_the_estimator_agrees_with_scikit_learn(scale, start):
    rng = np.random.default_rng(1)
    z, truth = scale * rng.standard_normal((4, 80, 5)), 2 * rng.standard_normal((4, 1, 5))
    y = (rng.random((4, 80)) < expit((z * truth).sum(-1))).astype(float)
    found = theory.fit_logistic(z, y, 0.5, np.full((4, 5), start))
    np.testing.assert_allclose(found, [solve(z[i], y[i], 0.5) for i in range(4)], atol=1e-6)


def test_tables_of_log_probabilities_agree_with_scipy():
    rng = np.random.default_rng(2)
    p, q = (log_softmax(rng.normal(0, 9, (3, 4)), axis=-1) for _ in range(2))
    np.testing.assert_allclose(theory.tilted(p, q, 0.3), log_softmax(p + q / 0.3, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(theory.divergence(p, q), rel_entr(np.exp(p), np.exp(q)).sum(-1))
    np.testing.assert_allclose(np.exp(theory.floored(p, 0.1)), 0.9 * np.exp(p) + 0.1 / 4)
    excluded = np.array([[0.0, -np.inf]])
    np.testing.assert_allclose(theory.divergence(excluded, np.log([[0.5, 0.5]])), np.log(2))
    far = theory.tilted(np.array([[0.0, -5000.0]]), np.array([[0.0, 5000.0]]), 1.0)
    np.testing.assert_allclose(np.exp(far), 0.5)


@pytest.mark.parametrize("kind", ["none", "rotation", "walk", "jumps"])
def test_a_path_stays_on_its_sphere_and_spends_its_angle(kind):
    path = make_bandits(400, Drift(kind, angle=4.0), range(3)).path
    np.testing.assert_allclose(np.linalg.norm(path, axis=-1), theory.NORM, rtol=1e-10)
    turns = 2 * np.arcsin(np.linalg.norm(np.diff(path, axis=1), axis=-1) / (2 * theory.NORM))
    np.testing.assert_allclose(turns.sum(1), 0.0 if kind == "none" else 4.0, atol=1e-5)
    assert ((turns > 1e-9).sum(1) == {"none": 0, "jumps": 8}.get(kind, 399)).all()


@pytest.mark.parametrize("kind", ["none", "rotation", "walk", "jumps"])
@pytest.mark.parametrize("name", METHODS)
def test_the_parts_sum_to_the_regret_and_a_seed_does_not_feel_its_batch(kind, name):
    drift, method = Drift(kind), METHODS[name]
    trace = simulate(make_bandits(150, drift, range(3)), method)
    np.testing.assert_allclose(trace.learning + trace.bias, trace.regret, rtol=0, atol=1e-9)
    assert trace.regret.min() >= 0
    assert trace.bias.min() >= -1e-12
    alone = [simulate(make_bandits(150, drift, [seed]), method).regret for seed in range(3)]
    np.testing.assert_allclose(trace.regret, np.concatenate(alone), atol=1e-12)


def test_a_frozen_gate_is_dpo_and_an_open_one_is_evodpo():
    bandit = make_bandits(300, Drift(), range(3))
    frozen, open_ = (
        simulate(bandit, own) for own in (Method(max_kl=0.0), Method(tolerance=-9.0, max_kl=99.0))
    )
    np.testing.assert_array_equal(frozen.regret, simulate(bandit, Method(moves=False)).regret)
    np.testing.assert_array_equal(open_.regret, simulate(bandit, Method()).regret)
    assert not frozen.promoted.any()
    assert open_.promoted.all()


def test_the_study_prints_its_tables_and_draws_its_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(theory, "HORIZONS", (100, 200))
    monkeypatch.setattr(theory, "BETAS", (0.3, 1.0))
    theory.main(["--seeds", "2", "--out", str(tmp_path / "new" / "theory.png")])
    said = capsys.readouterr().out
    assert said.count("[") == 1 + 6 + 12  # the heading, the methods, four other drifts
    assert (tmp_path / "new" / "theory.png").read_bytes().startswith(b"\x89PNG")
