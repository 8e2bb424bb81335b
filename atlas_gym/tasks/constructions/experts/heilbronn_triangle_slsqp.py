"""The smallest area raised by sequential quadratic programming, from random and from shaken points."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize


def place(n):
    rng, best = np.random.default_rng(1), None
    triples = np.array(list(combinations(range(n), 3)))
    for _ in range(40):
        points, failed = optimised(inside(rng.dirichlet((0.6, 0.6, 0.6), n)[:, :2]), triples), 0
        while failed < 8:
            moved = points + 0.1 * rng.standard_normal((n, 2)) * (rng.random((n, 1)) < 0.3)
            found = optimised(inside(moved), triples)
            failed = 0 if smallest(found, triples) > smallest(points, triples) + 1e-9 else failed + 1
            points = found if failed == 0 else points
        if best is None or smallest(points, triples) > smallest(best, triples):
            best = points
    return best


def inside(points):
    points = np.maximum(points, 0)
    return points / np.maximum(1, points.sum(axis=1, keepdims=True) + 1e-15)


def areas(points, triples):
    a, b, c = points[triples.T]
    return (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])


def smallest(points, triples):
    return np.abs(areas(points, triples)).min()


def optimised(points, triples):
    n, row, (i, j, k) = len(points), np.arange(len(triples)), triples.T
    sign = np.where(areas(points, triples) < 0, -1.0, 1.0)

    def slack(v):
        p = v[:-1].reshape(n, 2)
        return np.concatenate([sign * areas(p, triples) - v[-1], 1 - p.sum(axis=1)])

    def slope(v):
        p = v[:-1].reshape(n, 2)
        rows = np.zeros((len(row) + n, 2 * n + 1))
        for one, two, three in ((i, j, k), (j, k, i), (k, i, j)):
            rows[row, 2 * one] = sign * (p[two, 1] - p[three, 1])
            rows[row, 2 * one + 1] = sign * (p[three, 0] - p[two, 0])
        rows[: len(row), -1] = -1
        rows[len(row) + np.arange(n), 2 * np.arange(n)] = rows[
            len(row) + np.arange(n), 2 * np.arange(n) + 1
        ] = -1
        return rows

    last = np.repeat([0.0, -1.0], [2 * n, 1])
    found = minimize(
        lambda v: -v[-1],
        np.append(points.ravel(), smallest(points, triples)),
        jac=lambda v: last,
        constraints={"type": "ineq", "fun": slack, "jac": slope},
        bounds=[(0, 1)] * (2 * n + 1),
        method="SLSQP",
        options={"maxiter": 40, "ftol": 1e-9},
    ).x
    return inside(found[:-1].reshape(n, 2))
