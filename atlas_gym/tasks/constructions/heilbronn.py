"""What Heilbronn's problems have in common: points, no three of them nearly on a line."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction


class Heilbronn(Construction):
    """Points whose smallest triangle is judged against the whole area, which subclasses define."""

    function = "place"

    n: int = 11
    """Points, 3 to 60."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 3 <= self.n <= 60:
            raise ValueError("n must be 3 to 60")

    def arguments(self) -> tuple[int, ...]:
        return (self.n,)

    def whole_area(self, answer: Answer, points: np.ndarray) -> tuple[np.ndarray, int]:
        """The points as integers of one scale, and twice the area that they share; refuses what is not feasible."""
        raise NotImplementedError

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """The smallest area of three of the points over the whole one."""
        points = answer.array((self.n, 2))
        exact, area = self.whole_area(answer, points)
        found = []
        for triple in combinations(range(self.n), 3):
            (a, b), (c, d), (e, f) = exact[list(triple)].tolist()
            found.append((abs((c - a) * (f - b) - (e - a) * (d - b)), triple))
        least, triple = min(found)
        share = Fraction(least, area)
        told = f"The smallest triangle, of points {triple}, has {float(share):.10f} of the area."
        return share, told, {"points": points, "smallest": np.array(triple)}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The points and their smallest triangle."""
        axes.plot(*traces["points"].T, "o")
        axes.fill(*traces["points"][traces["smallest"]].T, alpha=0.4)
        axes.set(aspect="equal")
