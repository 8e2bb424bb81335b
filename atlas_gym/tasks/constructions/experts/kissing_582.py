"""Two in a row: ± 2 along the axes, and ± 1 on the blocks of a packing of quadruples (Leech and Sloane 1971)."""

from itertools import combinations, product

import numpy as np


def vectors(dimension):
    blocks = quadruples(dimension)
    found = [2 * sign * axis for axis in np.eye(dimension, dtype=int) for sign in (1, -1)]
    for block in blocks:
        for signs in product((1, -1), repeat=4):
            vector = np.zeros(dimension, dtype=int)
            vector[list(block)] = signs
            found.append(vector)
    return np.array(found)


def quadruples(points):
    """As many quadruples as a local search finds, any two with at most two points in common."""
    rng = np.random.default_rng(0)
    every = [frozenset(q) for q in combinations(range(points), 4)]
    clash = np.array([[len(a & b) > 2 for b in every] for a in every])
    np.fill_diagonal(clash, False)
    chosen, best = np.zeros(len(every), dtype=bool), []
    last = np.zeros(len(every), dtype=int)
    for step in range(40_000):
        cost = clash[:, chosen].sum(axis=1) - 1.0 * (last < step - rng.integers(3, 12)) + 9 * chosen
        pick = rng.choice(np.flatnonzero(cost == cost.min()))
        out = clash[pick] & chosen
        chosen[out] = False
        last[out] = step
        chosen[pick] = True
        if chosen.sum() > len(best):
            best = [tuple(every[k]) for k in np.flatnonzero(chosen)]
        if len(best) == 35 and points == 11:
            break
    return best
