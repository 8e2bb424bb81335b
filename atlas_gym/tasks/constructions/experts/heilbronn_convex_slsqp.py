"""The smallest area raised, the hull's kept, by sequential quadratic programming, from random and shaken points."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import ConvexHull


def place(n):
    rng, best = np.random.default_rng(3), None
    triples = np.array(list(combinations(range(n), 3)))
    for _ in range(40):
        points, failed = optimised(scattered(rng, n), triples), 0
        while failed < 8:
            moved = points + 0.1 * rng.standard_normal((n, 2)) * (rng.random((n, 1)) < 0.3)
            found = optimised(moved, triples)
            failed = 0 if smallest(found, triples) > smallest(points, triples) + 1e-9 else failed + 1
            points = found if failed == 0 else points
        if best is None or smallest(points, triples) > smallest(best, triples):
            best = points
    return best


def scattered(rng, n):
    turn, away = 2 * np.pi * rng.random(n), rng.random(n) ** 0.35
    return np.column_stack([away * np.cos(turn), away * np.sin(turn)])


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
        options={"maxiter": 40, "ftol": 1e-9},
    ).x
    points = found[:-1].reshape(n, 2)
    return points / np.sqrt(2 * ConvexHull(points).volume)
