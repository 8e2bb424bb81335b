"""AlphaEvolve's eleven points (May 2025), rounded to three decimals, made exact by sequential quadratic programming."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize

ROUGH = """
    0.856 0.000  0.296 0.000  0.082 0.853  0.244 0.378  0.507 0.337  0.000 0.277
    0.082 0.065  0.296 0.704  0.000 0.723  0.507 0.156  0.856 0.144
"""


def place(n):
    points = np.array(ROUGH.split(), dtype=float).reshape(-1, 2)[:n]
    triples = np.array(list(combinations(range(n), 3)))
    for _ in range(3):
        points = optimised(inside(points), triples)
    return points


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
        options={"maxiter": 60, "ftol": 1e-16},
    ).x
    return inside(found[:-1].reshape(n, 2))
