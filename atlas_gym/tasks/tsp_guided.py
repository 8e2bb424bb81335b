"""The preset `guided` of ATLAS-TSP-v0: programs guide a local search out of its local optima.

In every local optimum of guided local search (Voudouris and Tsang 1999) the edge of the tour with the greatest
badness / (1 + times punished) is punished: moves see it as longer from then on. The search then repairs the tour around
that edge alone.
"""

import numpy as np

from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.calls import Program
from atlas_gym.tasks.given_programs import load_experts
from atlas_gym.tasks.tours import Cities, Tours, TourSearch, nearest_neighbour_tour

_WEIGHT = 0.3
"""What a punishment adds, in mean edges of the first local optimum."""


def long_for_its_ends(distances):
    """Long edges are bad, somewhat more so where shorter ones are near"""
    neighbours = 5
    power = 0.2
    near = np.sort(distances, axis=1)[:, 1 : neighbours + 1].mean(axis=1)
    badness = distances / (near[:, None] + near) ** power
    return badness


def long_for_its_ends_inlined(distances):
    """Long edges are bad, somewhat more so where shorter ones are near; constants in the formulas"""
    near = np.sort(distances, axis=1)[:, 1:6].mean(axis=1)
    return distances / (near[:, None] + near) ** 0.2


def long_edges(distances):
    """Long edges are bad (Voudouris and Tsang 1999; EvoTune's start)"""
    badness = distances
    return badness


def relative(distances):
    """Edges that are long for both of their cities"""
    near = np.sort(distances, axis=1)[:, 1:6].mean(axis=1)
    return distances / (near[:, None] + near)


def no_guide(distances):
    """All edges are equally bad"""
    return np.ones_like(distances)


class GuidedSalesman(Tours):
    """ATLAS-TSP-v0 under the preset `guided`; see `TravellingSalesman`."""

    function = "badness"
    start = {"named": long_for_its_ends, "inlined": long_for_its_ends_inlined, "scratch": long_edges}
    experts = {
        "no_guide": no_guide,
        "relative": relative,
        **load_experts("atlas_gym.tasks.experts", "alpha_nearness"),
    }

    punishments: int = 60
    """Rounds of punishing edges and searching again, at least 0."""

    def score(self, program: Program, instance: Cities) -> Judgement:
        """One call; the search runs here."""
        badness = program(instance.distances).array(instance.distances.shape)
        return self._judgement(instance, guided_tour(instance.distances, badness, self.punishments))

    def describe(self) -> str:
        """The task in words."""
        return _BADNESS.format(cities=self.cities, count=self.count, punishments=self.punishments)


_BADNESS = """\
Guide a local search for a short round trip through {cities} points in the unit square out of its local optima.

    distances: float64 array ({cities}, {cities}), distances between all cities.
    Returns an array of the same shape: how bad it is to have each edge in the tour.

The search repairs a tour by 2-opt and Or-opt moves until none helps. Then it takes the edge of the tour with the
greatest badness / (1 + times punished), makes it longer by 0.3 of a mean edge, and goes on from there: {punishments}
times. The score is minus the excess of the shortest tour met over a very good one, on average over {count} sets of
cities: higher is better, 0 is as short as that. Long edges are often bad, but not in sparse corners."""


def guided_tour(distances: np.ndarray, badness: np.ndarray, punishments: int) -> list[int]:
    """The shortest tour met on the way from the nearest neighbour's.

    Args:
        distances: Symmetric, (n, n).
        badness: How bad it is to have each edge, (n, n); both directions of an edge count alike.
        punishments: How many edges are punished, one after the other.
    """
    search = TourSearch(distances, nearest_neighbour_tour(distances))
    search.improve(range(len(distances)))
    best, length = search.tour[:], search.length()
    weight = _WEIGHT * length / len(distances)
    utility: list[list[float]] = (0.5 * badness + 0.5 * badness.T).tolist()
    punished = np.zeros(distances.shape, dtype=int).tolist()
    guide = [row[:] for row in utility]
    for _ in range(punishments):
        tour = search.tour
        a, b = max(zip(tour, [*tour[1:], tour[0]], strict=True), key=lambda edge: guide[edge[0]][edge[1]])
        for one, other in ((a, b), (b, a)):
            punished[one][other] += 1
            guide[one][other] = utility[one][other] / (1 + punished[one][other])
            search.costs[one][other] += weight
        search.improve((a, b))
        if search.length() < length:
            best, length = search.tour[:], search.length()
    return best
