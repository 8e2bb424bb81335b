"""Alpha-nearness: how far an edge is from a spanning tree of degrees near 2 (Helsgaun 2000)."""

import numpy as np


def badness(distances):
    penalty = np.zeros(len(distances))
    step = 0.1 * distances.mean()
    for _ in range(60):
        degree = spanning_tree(distances + penalty[:, None] + penalty)[1]
        penalty += step * (degree - 2)
        step *= 0.95
    costs = distances + penalty[:, None] + penalty
    return costs - spanning_tree(costs)[0]


def spanning_tree(costs):
    """Longest edge on the tree's way between any two cities, and how many edges each city has (Prim 1957)."""
    n = len(costs)
    longest, degree = np.zeros((n, n)), np.zeros(n)
    nearest, parent, inside = costs[0].copy(), np.zeros(n, dtype=int), np.arange(n) == 0
    for _ in range(n - 1):
        city = int(np.where(inside, np.inf, nearest).argmin())
        above = parent[city]
        longest[city] = longest[:, city] = np.where(inside, np.maximum(longest[above], nearest[city]), 0)
        degree[[city, above]] += 1
        inside[city] = True
        closer = costs[city] < nearest
        nearest[closer], parent[closer] = costs[city][closer], city
    return longest, degree
