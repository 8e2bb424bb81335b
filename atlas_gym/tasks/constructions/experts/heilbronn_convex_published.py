"""AlphaEvolve's 13 or 14 points (May 2025), to three decimals, made exact by sequential quadratic programming."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import ConvexHull

ROUGH = {
    13: """
        1.000 0.567  0.324 0.000  0.596 0.973  0.634 0.021  0.085 0.137  0.315 1.000  0.000 0.452
        0.367 0.691  0.670 0.360  0.274 0.340  0.909 0.775  0.911 0.252  0.063 0.826
    """,
    14: """
        0.210 0.212  0.790 0.669  1.000 0.407  0.580 0.262  0.547 0.044  0.349 0.377  0.754 0.445
        0.052 0.691  0.000 0.412  0.827 0.000  0.189 0.811  0.515 0.806  0.373 0.635  1.000 0.221
    """,
}


def place(n):
    points = np.array(ROUGH[n].split(), dtype=float).reshape(n, 2)
    triples = np.array(list(combinations(range(n), 3)))
    for _ in range(3):
        points = optimised(points, triples)
    return points


def areas(points, triples):
    a, b, c = points[triples.T]
    return (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])


def smallest(points, triples):
    return np.abs(areas(points, triples)).min()


def optimised(points, triples):
    n, row, (i, j, k) = len(points), np.arange(len(triples)), triples.T
    hull = ConvexHull(points)
    points = points / np.sqrt(2 * hull.volume)
    before, ring, after = np.roll(hull.vertices, 1), hull.vertices, np.roll(hull.vertices, -1)
    sign = np.where(areas(points, triples) < 0, -1.0, 1.0)

    def slack(v):
        p = v[:-1].reshape(n, 2)
        hull_area = (p[ring, 0] * p[after, 1] - p[after, 0] * p[ring, 1]).sum()
        return np.append(sign * areas(p, triples) - v[-1], 1 - hull_area)

    def slope(v):
        p = v[:-1].reshape(n, 2)
        rows = np.zeros((len(row) + 1, 2 * n + 1))
        for one, two, three in ((i, j, k), (j, k, i), (k, i, j)):
            rows[row, 2 * one] = sign * (p[two, 1] - p[three, 1])
            rows[row, 2 * one + 1] = sign * (p[three, 0] - p[two, 0])
        rows[: len(row), -1] = -1
        rows[-1, 2 * ring] = p[before, 1] - p[after, 1]
        rows[-1, 2 * ring + 1] = p[after, 0] - p[before, 0]
        return rows

    last = np.repeat([0.0, -1.0], [2 * n, 1])
    found = minimize(
        lambda v: -v[-1],
        np.append(points.ravel(), smallest(points, triples)),
        jac=lambda v: last,
        constraints={"type": "ineq", "fun": slack, "jac": slope},
        method="SLSQP",
        options={"maxiter": 60, "ftol": 1e-16},
    ).x
    points = found[:-1].reshape(n, 2)
    return points / np.sqrt(2 * ConvexHull(points).volume)
