"""ATLAS-Construct-DistanceRatio-v0: points whose largest distance is small beside their smallest."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import whole
from atlas_gym.tasks.given_programs import load_experts


def sheared_grid(n, dimension):
    """A square grid, sheared"""
    shear = 0.3
    side = int(np.ceil(n ** (1 / dimension) - 1e-9))
    points = np.indices((side,) * dimension).reshape(dimension, -1).T.astype(float)
    points[:, 0] += shear * points[:, -1]
    away = ((points - points.mean(axis=0)) ** 2).sum(axis=1)
    return points[np.argsort(away, kind="stable")[:n]]


def grid(n, dimension):
    """A square grid"""
    side = int(np.ceil(n ** (1 / dimension) - 1e-9))
    points = np.indices((side,) * dimension).reshape(dimension, -1).T
    away = ((points - points.mean(axis=0)) ** 2).sum(axis=1)
    return points[np.argsort(away, kind="stable")[:n]]


class DistanceRatio(Construction, id="ATLAS-Construct-DistanceRatio-v0"):
    """
    ## Description
    A program places n points in the plane or in space; the ratio of their largest to their smallest distance is to be
    as small as it can be. Problem B.8 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-DistanceRatio-v0", preset="space_14").best_known
    4.16578347458

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `place(n, dimension)`.

    | Argument    | Content                              |
    |-------------|--------------------------------------|
    | `n`         | number of points                     |
    | `dimension` | of the space                         |
    | returns     | array (n, dimension), numbers        |

    ## Rewards
    With q the squared ratio, a rational number, the score is 1 − q / best known: 0 equals it, above 0 is a record.
    −1 counts as useless, a program that fails or returns a point twice gets −2.

    Best known for 16 in the plane: 12.889266112 (AlphaEvolve), 12.889230 (EinsteinArena, 1 April 2026; 12.88922990769
    in two repositories of 2026); for 14 in space: 4.165849767 (AlphaEvolve), 4.16579879 (SkyDiscover, 2026),
    4.16578347458 (repository auto-discovery, 2026); the experts here reach both lowest values.

    ## Arguments

    | Keyword      | Default       | Meaning                                         |
    |--------------|---------------|-------------------------------------------------|
    | `preset`     | `"default"`   | `default`: 16 in the plane; `space_14`          |
    | `n`          | 16            | number of points                                |
    | `dimension`  | 2             | of the space                                    |
    | `best_known` | 12.88922990769 | squared ratio that is worth 0; goes with `n`    |
    """

    function = "place"
    start = {"named": sheared_grid, "scratch": grid}
    experts = load_experts("atlas_gym.tasks.constructions.experts", "distance_ratio_slsqp")
    presets = {"default": {}, "space_14": {"n": 14, "dimension": 3, "best_known": 4.16578347458}}
    lower_is_better = True
    source = "EinsteinArena, 1 April 2026; in space auto-discovery, 2026"

    n: int = 16
    """Points, 2 to 200."""
    dimension: int = 2
    """Of the space, 1 to 10."""
    best_known: float = 12.88922990769

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (2 <= self.n <= 200 and 1 <= self.dimension <= 10):
            raise ValueError("n must be 2 to 200, dimension 1 to 10")

    def arguments(self) -> tuple[int, ...]:
        return self.n, self.dimension

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """The squared ratio."""
        points = answer.array((self.n, self.dimension))
        exact = whole(points)
        squared = [
            (int(((exact[i] - exact[j]) ** 2).sum()), (i, j)) for i, j in combinations(range(self.n), 2)
        ]
        (least, near), (most, far) = min(squared), max(squared)
        if least == 0:
            answer.refuse(f"points {near[0]} and {near[1]} at one place", "points that all differ")
        ratio = Fraction(most, least)
        told = f"The squared ratio is {float(min(ratio, Fraction(10**300))):.10f}: points {far} over points {near}."
        return ratio, told, {"points": points}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The points, in space their first two coordinates."""
        axes.plot(traces["points"][:, 0], traces["points"][:, -1 if self.dimension == 1 else 1], "o")
        axes.set(aspect="equal")
