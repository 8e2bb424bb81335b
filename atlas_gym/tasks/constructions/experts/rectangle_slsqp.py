"""Centres, radii and the rectangle's width together by sequential quadratic programming from random starts."""

import numpy as np
from scipy.optimize import minimize


def pack(n):
    rng, best = np.random.default_rng(4), None
    for _ in range(300):
        found = optimised(rng, n)
        if best is None or found[1].sum() > best[1].sum():
            best = found
    return best


def optimised(rng, n):
    i, j = np.triu_indices(n, 1)
    pair, each = np.arange(len(i)), np.arange(n)
    width = rng.uniform(0.8, 1.2)
    start = np.concatenate([rng.random(n) * width, rng.random(n) * (2 - width), np.full(n, 0.05), [width]])

    def slack(v):
        x, y, r = v[:-1].reshape(3, n)
        apart = np.hypot(x[i] - x[j], y[i] - y[j]) - r[i] - r[j]
        return np.concatenate([apart, x - r, y - r, v[-1] - x - r, 2 - v[-1] - y - r])

    def slope(v):
        x, y, r = v[:-1].reshape(3, n)
        apart = np.hypot(x[i] - x[j], y[i] - y[j]) + 1e-15
        rows = np.zeros((len(i) + 4 * n, 3 * n + 1))
        for place, axis in ((0, x), (n, y)):
            rows[pair, place + i] = (axis[i] - axis[j]) / apart
            rows[pair, place + j] = -rows[pair, place + i]
        rows[pair, 2 * n + i] = rows[pair, 2 * n + j] = -1
        rows[len(i) :, 2 * n : 3 * n] = -np.tile(np.eye(n), (4, 1))
        for wall, (place, sign) in enumerate(((0, 1), (n, 1), (0, -1), (n, -1))):
            rows[len(i) + wall * n + each, place + each] = sign
        rows[len(i) + 2 * n : len(i) + 3 * n, -1] = 1
        rows[len(i) + 3 * n :, -1] = -1
        return rows

    gain = np.repeat([0.0, 0.0, -1.0, 0.0], [n, n, n, 1])
    found = minimize(
        lambda v: -v[2 * n : -1].sum(),
        start,
        jac=lambda v: gain,
        constraints={"type": "ineq", "fun": slack, "jac": slope},
        method="SLSQP",
        options={"maxiter": 200, "ftol": 1e-12},
    ).x
    radii = np.maximum(0, found[2 * n : -1] + min(0, slack(found).min()) - 1e-12)
    return found[: 2 * n].reshape(2, n).T, radii
