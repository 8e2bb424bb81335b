"""Round trips, shortened by exchanging two edges at a time (2-opt, Croes 1958)."""

import numpy as np


def nearest_neighbour(distances, start):
    away, tour = distances.copy(), [start]
    for _ in range(len(away) - 1):
        away[:, tour[-1]] = np.inf
        tour.append(int(away[tour[-1]].argmin()))
    return np.array(tour)


def improved(costs, tour):
    while True:
        ahead = np.roll(tour, -1)
        step = costs[tour, ahead]
        gain = step[:, None] + step - costs[np.ix_(tour, tour)] - costs[np.ix_(ahead, ahead)]
        gain = np.triu(gain, 1)
        i, j = np.unravel_index(gain.argmax(), gain.shape)
        if gain[i, j] < 1e-9:
            return tour
        tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
