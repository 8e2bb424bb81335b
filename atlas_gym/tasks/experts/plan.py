"""A whole plan at the first call: nearest neighbour, then 2-opt (Croes 1958)."""

import numpy as np

after = {}


def next_city(current, start, unvisited, distances):
    if not after:
        tour = improved(distances, nearest_neighbour(distances, start))
        after.update(zip(tour.tolist(), np.roll(tour, -1).tolist()))
    return (unvisited == after[current]).astype(float)


def nearest_neighbour(distances, start):
    away, tour = distances.copy(), [start]
    for _ in range(len(away) - 1):
        away[:, tour[-1]] = np.inf
        tour.append(int(away[tour[-1]].argmin()))
    return np.array(tour)


def improved(distances, tour):
    while True:
        after = np.roll(tour, -1)
        step = distances[tour, after]
        gain = step[:, None] + step - distances[np.ix_(tour, tour)] - distances[np.ix_(after, after)]
        gain = np.triu(gain, 1)
        i, j = np.unravel_index(gain.argmax(), gain.shape)
        if gain[i, j] < 1e-9:
            return tour
        tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
