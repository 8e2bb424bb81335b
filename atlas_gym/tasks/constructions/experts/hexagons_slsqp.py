"""Positions and turns by sequential quadratic programming; each pair keeps behind the edge that parts it best."""

import numpy as np
from scipy.optimize import minimize

APOTHEM = np.sqrt(3) / 2
SIXTHS = np.arange(6) * np.pi / 3


def pack(n):
    rng, best, least = np.random.default_rng(0), None, np.inf
    for _ in range(20):
        found = optimised(rng, n)
        if found is not None and found[1] < least:
            best, least = found[0], found[1]
    return best, [0.0, 0.0, 0.0]


def parted(h, i, j):
    """For pairs: how far behind its best edge a hexagon leaves the other, and which edge of which of the two."""
    gaps = []
    for a, b in ((i, j), (j, i)):
        normals = h[a, 2][:, None] + np.pi / 6 + SIXTHS
        corners = h[b, 2][:, None] + SIXTHS
        along = (h[b, :2] - h[a, :2])[:, None, :] * np.stack([np.cos(normals), np.sin(normals)], axis=2)
        reach = np.cos(corners[:, None, :] - normals[:, :, None]).min(axis=2)
        gaps.append(along.sum(axis=2) + reach - APOTHEM)
    gaps = np.concatenate(gaps, axis=1)
    return gaps.max(axis=1)


def side(h):
    normals = np.pi / 6 + SIXTHS
    corners = h[:, 2][:, None] + SIXTHS
    reach = np.cos(corners[:, None, :] - normals[None, :, None]).max(axis=2)
    return (h[:, :1] * np.cos(normals) + h[:, 1:2] * np.sin(normals) + reach) / APOTHEM


def optimised(rng, n):
    i, j = np.triu_indices(n, 1)
    turn, away = 2 * np.pi * rng.random(n), 2.6 * np.sqrt(rng.random(n))
    common = rng.random() * np.pi / 3
    h = np.column_stack([away * np.cos(turn), away * np.sin(turn), common + 0.1 * rng.standard_normal(n)])

    def slack(v):
        h = v[:-1].reshape(n, 3)
        return np.concatenate([parted(h, i, j), (v[-1] - side(h)).ravel()])

    def slope(v):
        step, rows = 1e-7, np.empty((len(i) + 6 * n, 3 * n + 1))
        base = slack(v)
        for k in range(3 * n + 1):
            moved = v.copy()
            moved[k] += step
            rows[:, k] = (slack(moved) - base) / step
        return rows

    last = np.repeat([0.0, 1.0], [3 * n, 1])
    found = minimize(
        lambda v: v[-1],
        np.append(h.ravel(), 4.5),
        jac=lambda v: last,
        constraints={"type": "ineq", "fun": slack, "jac": slope},
        method="SLSQP",
        options={"maxiter": 80, "ftol": 1e-9},
    ).x
    h = found[:-1].reshape(n, 3)
    lack = -parted(h, i, j).min() + 1e-11
    if lack > 0.01:
        return None
    h[:, :2] *= 1 + 2 * max(lack, 0)  # apart again: nearest centres are at least √3 apart
    return h, side(h).max()
