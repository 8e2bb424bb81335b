"""The sliding-window estimator against two independent solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from atlas_gym.experiments.theory import estimator
from atlas_gym.experiments.theory.estimator import NotConverged, covariance, fit_logistic


def window(seeds=6, rounds=80, dimension=5, scale=1.0):
    rng = np.random.default_rng(1)
    z = scale * rng.standard_normal((seeds, rounds, dimension))
    theta = 2 * rng.standard_normal((seeds, 1, dimension))
    return z, (rng.random((seeds, rounds)) < expit((z * theta).sum(-1))).astype(float)


@pytest.mark.parametrize("ridge", [0.1, 1.0, 10.0])
def test_it_agrees_with_scikit_learn(ridge):
    z, y = window()
    ours = fit_logistic(z, y, ridge, np.zeros((6, 5)))
    for seed in range(6):
        theirs = LogisticRegression(C=1 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
        theirs.fit(z[seed], y[seed])
        np.testing.assert_allclose(ours[seed], theirs.coef_[0], atol=1e-6)


def test_it_agrees_with_scipy():
    z, y = window(seeds=3, scale=0.3)
    ours = fit_logistic(z, y, 1.0, np.zeros((3, 5)))
    for seed in range(3):

        def loss(theta, seed=seed):
            margins = z[seed] @ theta
            return np.sum(np.logaddexp(0, margins) - y[seed] * margins) + 0.5 * theta @ theta

        def slope(theta, seed=seed):
            return z[seed].T @ (expit(z[seed] @ theta) - y[seed]) + theta

        theirs = minimize(loss, np.zeros(5), jac=slope, method="BFGS", options={"gtol": 1e-10})
        np.testing.assert_allclose(ours[seed], theirs.x, atol=1e-6)


def test_the_first_guess_does_not_matter():
    """From far out a plain Newton step overshoots: this is what the halving is for."""
    z, y = window(scale=3.0)
    near, far = (fit_logistic(z, y, 0.5, np.full((6, 5), start)) for start in (0.0, 200.0))
    np.testing.assert_allclose(near, far, atol=1e-8)


def test_a_seed_does_not_feel_its_batch():
    z, y = window()
    together = fit_logistic(z, y, 1.0, np.zeros((6, 5)))
    alone = [fit_logistic(z[[s]], y[[s]], 1.0, np.zeros((1, 5)))[0] for s in range(6)]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


def test_pairs_of_one_action_teach_nothing():
    found = fit_logistic(np.zeros((2, 9, 3)), np.ones((2, 9)), 1.0, np.full((2, 3), 5.0))
    np.testing.assert_allclose(found, 0.0, atol=1e-9)


def test_giving_up_is_an_error(monkeypatch):
    monkeypatch.setattr(estimator, "MAX_ITERATIONS", 1)
    z, y = window()
    with pytest.raises(NotConverged):
        fit_logistic(z, y, 1.0, np.zeros((6, 5)))


def test_covariance():
    z, _ = window(seeds=2)
    np.testing.assert_allclose(covariance(z)[1], sum(np.outer(row, row) for row in z[1]), atol=1e-12)
