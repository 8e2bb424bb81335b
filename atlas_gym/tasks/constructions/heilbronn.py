"""ATLAS-Construct-HeilbronnTriangle-v0 and -HeilbronnConvex-v0: points, no three of them nearly on a line."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import whole
from atlas_gym.tasks.given_programs import load_experts

_EXPERTS = "atlas_gym.tasks.constructions.experts"


class Heilbronn(Construction):
    """Points whose smallest triangle is judged against the whole area, which subclasses define."""

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


def along_a_curve(n):
    """Points along a curve that bends"""
    bend = 2.0
    t = (np.arange(n) + 0.5) / n
    return np.column_stack([t**bend, (1 - t) ** bend])


class HeilbronnTriangle(Heilbronn, id="ATLAS-Construct-HeilbronnTriangle-v0"):
    """
    ## Description
    A program places n points in a triangle; the smallest triangle that any three of them form is to be as large as it
    can be. Problem B.9 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-HeilbronnTriangle-v0").best_known
    0.03652988988004

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `place(n)`.

    | Argument | Content                                                        |
    |----------|----------------------------------------------------------------|
    | `n`      | number of points                                               |
    | returns  | array (n, 2), points with x ≥ 0, y ≥ 0 and x + y ≤ 1           |

    Any triangle is this one after an affine map, which leaves the ratios of areas as they are.

    ## Rewards
    The smallest area, as a share of the triangle's, over the best known, minus 1: 0 equals it, above 0 is a record.
    Points and areas are rational numbers, without tolerance. −1 counts as useless (three points on a line), a program
    that fails or leaves the triangle gets −2.

    Best known for 11: 0.036529889880030156 (AlphaEvolve, 14 May 2025; nothing better on EinsteinArena, 1 June 2026).

    ## Arguments

    | Keyword      | Default          | Meaning                                             |
    |--------------|------------------|-----------------------------------------------------|
    | `preset`     | `"default"`      | `default`                                           |
    | `n`          | 11               | number of points                                    |
    | `best_known` | 0.03652988988004 | value that is worth 0; to be given with another `n` |
    """

    function = "place"
    start = along_a_curve
    experts = load_experts(_EXPERTS, "heilbronn_triangle_published")
    source = "AlphaEvolve, 14 May 2025"

    best_known: float = 0.03652988988004

    def whole_area(self, answer: Answer, points: np.ndarray) -> tuple[np.ndarray, int]:
        exact = whole(np.vstack([points, [(1.0, 0.0)]]))
        one, corners = exact[-1, 0], exact[:-1]
        outside = (corners < 0).any(axis=1) | (corners.sum(axis=1) > one)
        if outside.any():
            answer.refuse(f"point {int(outside.argmax())} outside the triangle", "x ≥ 0, y ≥ 0 and x + y ≤ 1")
        return corners, one**2

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        axes.fill(*np.array([(0, 0), (1, 0), (0, 1)]).T, fill=False)
        super().draw(axes, traces)


def two_rings(n):
    """Two rings of points"""
    outer = 9
    inner = 0.45
    first = 2 * np.pi * np.arange(outer) / outer
    second = 2 * np.pi * (np.arange(n - outer) + 0.3) / max(1, n - outer)
    ring = np.column_stack([np.cos(first), np.sin(first)])
    return np.concatenate([ring, inner * np.column_stack([np.cos(second), np.sin(second)])])[:n]


class HeilbronnConvex(Heilbronn, id="ATLAS-Construct-HeilbronnConvex-v0"):
    """
    ## Description
    A program places n points in the plane; the smallest triangle that any three of them form is to be as large a share
    of their convex hull as it can be. Problem B.10 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-HeilbronnConvex-v0", preset="points_14").best_known
    0.02783558051756

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `place(n)`.

    | Argument | Content                      |
    |----------|------------------------------|
    | `n`      | number of points             |
    | returns  | array (n, 2), points, floats |

    ## Rewards
    The smallest area over that of the convex hull, over the best known, minus 1: 0 equals it, above 0 is a record. All
    areas are rational numbers, without tolerance. −1 counts as useless (three points on a line), a program that fails
    gets −2.

    Best known for 13: 0.0309368890 (AlphaEvolve, 14 May 2025), 0.0309372 (repository hillclimb, 24 August
    2026; that it is 0.030937207921 is what polishing AlphaEvolve's points gives here); for 14: 0.0278355715
    (AlphaEvolve), 0.0278355805 (EinsteinArena, 1 April 2026).

    ## Arguments

    | Keyword      | Default         | Meaning                                             |
    |--------------|-----------------|-----------------------------------------------------|
    | `preset`     | `"default"`     | `default`, `points_14`                              |
    | `n`          | 13              | number of points                                    |
    | `best_known` | 0.030937207922  | value that is worth 0; to be given with another `n` |
    """

    function = "place"
    start = two_rings
    experts = load_experts(_EXPERTS, "heilbronn_convex_published")
    presets = {"default": {}, "points_14": {"n": 14, "best_known": 0.02783558051756}}
    source = "hillclimb, 24 August 2026; for 14 EinsteinArena, 1 April 2026"

    n: int = 13
    best_known: float = 0.030937207922

    def whole_area(self, answer: Answer, points: np.ndarray) -> tuple[np.ndarray, int]:
        exact = whole(points)
        twice = twice_hull_area(exact)
        if twice == 0:
            answer.refuse("points on one line", "points whose convex hull has an area")
        return exact, twice


def twice_hull_area(points: np.ndarray) -> int:
    """Twice the area of the convex hull of points with integer coordinates, (n, 2) (Andrew's chains, 1979)."""
    ordered, twice = sorted(map(tuple, points.tolist())), 0
    for row in (ordered, ordered[::-1]):
        chain: list[tuple[int, int]] = []
        for x, y in row:
            while len(chain) > 1:
                (a, b), (c, d) = chain[-2:]
                if (c - a) * (y - b) - (x - a) * (d - b) > 0:
                    break
                del chain[-1]
            chain.append((x, y))
        twice += sum(a * d - c * b for (a, b), (c, d) in pairwise(chain))
    return twice
