"""What both ways to look for round trips have in common: the cities, the score and the drawing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.tours import distance_matrix, short_tour, tour_length

_KICKS_PER_CITY = 4
"""Of the search for the tours that scores are measured against."""


@dataclass(frozen=True)
class Cities:
    """What is hidden of one tour to be found."""

    points: np.ndarray
    """In the unit square, (n, 2)."""
    distances: np.ndarray
    """(n, n)."""
    good: float
    """Length of the tour that scores are measured against."""


class Tours(ProgramTask):
    """What both ways to look for tours have in common."""

    floor = -1.0
    metrics = ("length",)
    presets = {"default": {}, "guided": {}, "cities_100": {"cities": 100, "count": 10}}

    cities: int = 60
    """In an instance, at least 5."""
    count: int = 20
    """Instances per evaluation, at least 1."""

    def __post_init__(self) -> None:
        if self.cities < 5 or self.count < 1:
            raise ValueError("cities must be at least 5 and count at least 1")

    def instances(self, rng: np.random.Generator) -> Iterable[Cities]:
        """`count` sets of cities, uniform in the unit square, each with the length of a very good tour."""
        points = rng.random((self.count, self.cities, 2))
        seeds = rng.integers(2**31, size=self.count).tolist()
        return [_with_good_tour(p, seed) for p, seed in zip(points, seeds, strict=True)]

    def _judgement(self, cities: Cities, tour: Sequence[int]) -> Judgement:
        length = tour_length(cities.distances, tour)
        steps = cities.distances[np.asarray(tour), np.roll(tour, -1)]
        diagnosis = (
            f"Its tour has length {length:.3f}, a very good one {cities.good:.3f}. Its five longest edges make up "
            f"{np.sort(steps)[-5:].sum() / length:.0%} of it; the last one, home, is {steps[-1]:.3f} long."
        )
        traces = {"points": cities.points, "tour": np.asarray(tour)}
        return Judgement(1.0 - length / cities.good, {"length": length}, diagnosis, traces)

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The tour with the lowest score."""
        order = [*traces["tour"], traces["tour"][0]]
        axes.plot(*traces["points"][order].T, "o-", markersize=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


def _with_good_tour(points: np.ndarray, seed: int) -> Cities:
    distances = distance_matrix(points)
    tour = short_tour(distances, _KICKS_PER_CITY * len(points), seed)
    return Cities(points, distances, tour_length(distances, tour))
