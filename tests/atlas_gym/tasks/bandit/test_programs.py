"""The expert programs against closed forms computed from the whole history in another way."""

from importlib.resources import files

import numpy as np
import pytest

from atlas_gym.tasks.bandit.driver import HistoryBook

K, D, ROUNDS = 4, 3, 90


def source(name):
    return (files("atlas_gym.tasks.bandit.experts") / f"{name}.py").read_text(encoding="utf-8")


def namespace_of(name):
    namespace = {"np": np}
    exec(source(name), namespace)
    return namespace


class Recorder(np.ndarray):
    """A context that remembers what it was multiplied with."""

    operands: list

    def __matmul__(self, other):
        self.operands.append(np.array(other))
        return np.asarray(self) @ other


def rounds_of(name, theta_at=lambda t: np.array([0.8, -0.6, 0.0]), noise=0.2, rounds=ROUNDS, namespace=None):
    """Play a program; yield t, contexts, past contexts, past rewards, its arm, what it multiplied them by."""
    rng = np.random.default_rng(3)
    policy = (namespace or namespace_of(name))["policy"]
    book = HistoryBook(1, rounds, D)
    for t in range(rounds):
        contexts = rng.standard_normal((K, D))
        contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
        recorder = contexts.copy().view(Recorder)
        recorder.operands = []
        history = book.histories[0]
        arm = policy(recorder, history, t)
        yield t, contexts, history.contexts.copy(), history.rewards.copy(), arm, recorder.operands
        rewards = contexts @ theta_at(t) + noise * rng.standard_normal(K)
        book.record(contexts[None], [arm], rewards[[arm]])


def ridge(X, y, weights, lam):
    """argmin Σ w (y − xᵀθ)² + λ‖θ‖² as a least-squares problem, without normal equations."""
    root = np.sqrt(weights)
    rows = np.concatenate([root[:, None] * X, np.sqrt(lam) * np.eye(D)])
    return np.linalg.lstsq(rows, np.concatenate([root * y, np.zeros(D)]), rcond=None)[0], rows


def ridge_bonus(contexts, rows):
    """√(xᵀ (RᵀR)⁻¹ x) from the QR factors of the stacked rows."""
    triangle = np.linalg.qr(rows)[1]
    return np.linalg.norm(np.linalg.solve(triangle.T, contexts.T), axis=0)


def assert_plays(arm, scores):
    assert scores[arm] == pytest.approx(scores.max(), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "window", "lam", "alpha"),
    [
        ("sw_linucb", 50, 1.0, 1.0),
        ("sw_linucb_inlined", 50, 1.0, 1.0),
        ("tuned_sw_linucb", 11, 0.5, 0.1),
        ("linucb", ROUNDS, 1.0, 1.0),
    ],
)
def test_sliding_windows_are_ridge_regressions_on_the_last_rounds(name, window, lam, alpha):
    for _, contexts, X, y, arm, operands in rounds_of(name):
        theta, rows = ridge(X[-window:], y[-window:], np.ones(len(y[-window:])), lam)
        assert any(operand.shape == (D,) and np.allclose(operand, theta) for operand in operands)
        assert_plays(arm, contexts @ theta + alpha * ridge_bonus(contexts, rows))


def test_restart_is_ridge_regression_since_the_last_restart():
    constants = namespace_of("restart_linucb")
    for t, contexts, X, y, arm, _ in rounds_of("restart_linucb"):
        since = t - t % constants["period"]
        theta, rows = ridge(X[since:], y[since:], np.ones(t - since), constants["lam"])
        assert_plays(arm, contexts @ theta + constants["alpha"] * ridge_bonus(contexts, rows))


@pytest.mark.parametrize("name", ["d_linucb", "weighted_linucb"])
def test_discounting_weights_a_round_of_age_s_by_gamma_to_the_s(name):
    constants = namespace_of(name)
    gamma, lam, alpha = constants["gamma"], constants["lam"], constants["alpha"]
    for t, contexts, X, y, arm, operands in rounds_of(name):
        weights = gamma ** np.arange(t)[::-1]
        theta, rows = ridge(X, y, weights, lam)
        assert any(operand.shape == (D,) and np.allclose(operand, theta) for operand in operands)
        if name == "weighted_linucb":
            bonus = ridge_bonus(contexts, rows)
        else:
            # The covariance of the weighted estimate, propagated through it: θ̂ is linear in the rewards.
            linear_map = np.linalg.lstsq(rows, np.eye(len(rows)), rcond=None)[0]
            covariance = linear_map @ np.diag([*weights, *np.ones(D)]) @ linear_map.T
            assert any(operand.shape == (D, D) and np.allclose(operand, covariance) for operand in operands)
            bonus = np.sqrt(np.einsum("ki,ij,kj->k", contexts, covariance, contexts))
        assert_plays(arm, contexts @ theta + alpha * bonus)


def test_thompson_sampling_draws_from_the_posterior(monkeypatch):
    """Fed the unit vectors instead of normal draws, its θ − θ̂ are the columns of a root of scale² A⁻¹."""
    constants = namespace_of("lin_ts")
    X, y = list(rounds_of("lin_ts", rounds=20))[-1][2:4]
    book = HistoryBook(1, len(y) + 1, D)
    namespace, draws = namespace_of("lin_ts"), []
    for t in range(len(y) + 1):
        for unit in [*np.eye(D), np.zeros(D)] if t == len(y) else [np.zeros(D)]:
            monkeypatch.setattr(np.random, "standard_normal", lambda d, unit=unit: unit)
            before = {key: value.copy() for key, value in namespace["state"].items()}
            recorder = np.eye(D).view(Recorder)
            recorder.operands = []
            namespace["policy"](recorder, book.histories[0], t)
            if t == len(y) and unit.any():
                namespace["state"].update(before)
            draws.append(recorder.operands[-1])
        if t < len(y):
            book.record(X[t][None, None], [0], y[[t]])
    *columns, mean = draws[-D - 1 :]
    root = np.stack(columns) - mean
    theta, rows = ridge(X, y, np.ones(len(y)), constants["lam"])
    np.testing.assert_allclose(mean, theta, atol=1e-9)
    np.testing.assert_allclose(
        root.T @ root, constants["scale"] ** 2 * np.linalg.inv(rows.T @ rows), atol=1e-9
    )


def test_kalman_is_gaussian_regression_with_an_exponential_kernel():
    """The walk's stationary law has cov(θ_s, θ_t) = cos(φ)^|s−t| I/d: the batch posterior mean must agree."""
    constants = namespace_of("kalman")
    keep = 1 - constants["step"] ** 2 / 2  # the cosine of the angle whose chord is `step`
    for t, contexts, X, y, arm, operands in rounds_of("kalman"):
        ages = np.abs(np.subtract.outer(np.arange(t), np.arange(t)))
        covariance = keep**ages * (X @ X.T) / D + constants["noise"] ** 2 * np.eye(t)
        to_now = keep ** (t - np.arange(t))
        mean = (X * to_now[:, None]).T @ np.linalg.solve(covariance, y) / D if t else np.zeros(D)
        np.testing.assert_allclose(operands[-1], mean, atol=1e-9)
        assert_plays(arm, contexts @ mean)


def test_dlinucb_replaces_its_model_after_a_jump():
    namespace = namespace_of("dlinucb")
    before, after = np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0])
    rounds = list(
        rounds_of("dlinucb", lambda t: before if t < 40 else after, 0.0, rounds=80, namespace=namespace)
    )
    best = [
        arm == int(np.argmax(contexts @ (before if t < 40 else after))) for t, contexts, *_, arm, _ in rounds
    ]
    assert np.mean(best[20:40]) >= 0.8
    assert np.mean(best[60:]) >= 0.8
