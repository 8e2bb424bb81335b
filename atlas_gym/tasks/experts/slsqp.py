"""Centres and radii together by sequential quadratic programming (Kraft 1988) from shaken grids."""

import numpy as np
from scipy.optimize import minimize


def pack(n):
    rng = np.random.default_rng(1)
    side = int(np.ceil(np.sqrt(n)))
    places = (np.arange(side) + 0.5) / side
    spots = np.array([(x, y) for x in places for y in places])
    best = None
    for _ in range(2):
        chosen = spots[np.sort(rng.permutation(len(spots))[:n])]
        centers = np.clip(chosen + 0.05 * rng.standard_normal((n, 2)), 0.05, 0.95)
        found = optimised(centers, n)
        if best is None or found[1].sum() > best[1].sum():
            best = found
    return best


def optimised(centers, n):
    i, j = np.triu_indices(n, 1)
    pair, each = np.arange(len(i)), np.arange(n)

    def slack(v):
        x, y, r = v.reshape(3, n)
        apart = np.hypot(x[i] - x[j], y[i] - y[j]) - r[i] - r[j]
        return np.concatenate([apart, x - r, y - r, 1 - x - r, 1 - y - r])

    def slope(v):
        x, y, r = v.reshape(3, n)
        apart = np.hypot(x[i] - x[j], y[i] - y[j])
        rows = np.zeros((len(i) + 4 * n, 3 * n))
        for place, axis in ((0, x), (n, y)):
            rows[pair, place + i] = (axis[i] - axis[j]) / apart
            rows[pair, place + j] = -rows[pair, place + i]
        rows[pair, 2 * n + i] = rows[pair, 2 * n + j] = -1
        rows[len(i) :, 2 * n :] = -np.tile(np.eye(n), (4, 1))
        for wall, (place, sign) in enumerate(((0, 1), (n, 1), (0, -1), (n, -1))):
            rows[len(i) + wall * n + each, place + each] = sign
        return rows

    found = minimize(
        lambda v: -v[2 * n :].sum(),
        np.concatenate([*centers.T, np.full(n, 0.05)]),
        jac=lambda v: np.repeat([0.0, 0.0, -1.0], n),
        constraints={"type": "ineq", "fun": slack, "jac": slope},
        bounds=[(0, 1)] * (3 * n),
        method="SLSQP",
        options={"maxiter": 80},
    ).x
    radii = found[2 * n :] + min(0, slack(found).min()) - 1e-12
    return found[: 2 * n].reshape(2, n).T, np.maximum(0, radii)
