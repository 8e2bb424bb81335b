"""Shortest round trips, proven: by trying all, or by integer programming with subtour cuts."""

import itertools

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components


def shortest_of_all(distances):
    """Length of the shortest round trip of at most nine cities."""
    n = len(distances)
    orders = np.array([(0, *order) for order in itertools.permutations(range(1, n))])
    return distances[orders, np.roll(orders, -1, axis=1)].sum(axis=1).min()


def shortest_proven(distances):
    """Length of the shortest round trip (Dantzig, Fulkerson and Johnson 1954), solved by HiGHS."""
    n = len(distances)
    i, j = np.triu_indices(n, 1)
    edges = np.arange(len(i))
    degree = np.zeros((n, len(i)))
    degree[i, edges] = degree[j, edges] = 1
    cuts = [LinearConstraint(degree, 2, 2)]
    while True:
        found = milp(distances[i, j], integrality=np.ones(len(i)), bounds=Bounds(0, 1), constraints=cuts)
        chosen = found.x > 0.5
        graph = csr_matrix((np.ones(n), (i[chosen], j[chosen])), shape=(n, n))
        parts, part = connected_components(graph, directed=False)
        if parts == 1:
            return distances[i, j][chosen].sum()
        for number in range(parts):
            inside = part == number
            cuts.append(LinearConstraint(inside[i] & inside[j], 0, inside.sum() - 1))
