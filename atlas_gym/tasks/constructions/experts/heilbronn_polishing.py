"""The smallest of all triangles raised by sequential quadratic programming, in a triangle or in the points' hull."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import ConvexHull


def sharpened(rough, n, polished):
    """Points given to three decimals, as far up as they go."""
    points = np.array(rough.split(), dtype=float).reshape(-1, 2)[:n]
    triples = np.array(list(combinations(range(n), 3)))
    for _ in range(3):
        points = polished(points, triples)
    return points


def areas(points, triples):
    a, b, c = points[triples.T]
    return (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])


def smallest(points, triples):
    return np.abs(areas(points, triples)).min()


def inside(points):
    points = np.maximum(points, 0)
    return points / np.maximum(1, points.sum(axis=1, keepdims=True) + 1e-15)


def in_triangle(points, triples):
    """x, y ≥ 0 and x + y ≤ 1."""
    slopes = -np.repeat(np.eye(len(points)), 2, axis=1)
    bounds = [(0, 1)] * (2 * len(points) + 1)
    return inside(raised(inside(points), triples, lambda p: (1 - p.sum(axis=1), slopes), bounds))


def in_hull(points, triples):
    """The area of their convex hull is a half."""
    hull = ConvexHull(points)
    before, ring, after = np.roll(hull.vertices, 1), hull.vertices, np.roll(hull.vertices, -1)

    def room(p):
        slopes = np.zeros((1, p.size))
        slopes[0, 2 * ring] = p[before, 1] - p[after, 1]
        slopes[0, 2 * ring + 1] = p[after, 0] - p[before, 0]
        return [1 - (p[ring, 0] * p[after, 1] - p[after, 0] * p[ring, 1]).sum()], slopes

    points = raised(points / np.sqrt(2 * hull.volume), triples, room, None)
    return points / np.sqrt(2 * ConvexHull(points).volume)


def raised(points, triples, room, bounds):
    """room(points) is what must not be below 0, and its slopes (…, 2 n)."""
    n, row, (i, j, k) = len(points), np.arange(len(triples)), triples.T
    sign = np.where(areas(points, triples) < 0, -1.0, 1.0)

    def slack(v):
        p = v[:-1].reshape(n, 2)
        return np.concatenate([sign * areas(p, triples) - v[-1], room(p)[0]])

    def slope(v):
        p = v[:-1].reshape(n, 2)
        rows = np.zeros((len(row), 2 * n + 1))
        for one, two, three in ((i, j, k), (j, k, i), (k, i, j)):
            rows[row, 2 * one] = sign * (p[two, 1] - p[three, 1])
            rows[row, 2 * one + 1] = sign * (p[three, 0] - p[two, 0])
        rows[:, -1] = -1
        return np.vstack([rows, np.pad(room(p)[1], ((0, 0), (0, 1)))])

    last = np.repeat([0.0, -1.0], [2 * n, 1])
    found = minimize(
        lambda v: -v[-1],
        np.append(points.ravel(), smallest(points, triples)),
        jac=lambda v: last,
        constraints={"type": "ineq", "fun": slack, "jac": slope},
        bounds=bounds,
        method="SLSQP",
        options={"maxiter": 60, "ftol": 1e-16},
    ).x
    return found[:-1].reshape(n, 2)
