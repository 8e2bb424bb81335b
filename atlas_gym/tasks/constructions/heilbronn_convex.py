"""ATLAS-Construct-HeilbronnConvex-v0: points, judged against their convex hull."""

from itertools import pairwise

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.exact import whole
from atlas_gym.tasks.constructions.heilbronn import Heilbronn
from atlas_gym.tasks.given_programs import load_experts


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

    start = two_rings
    experts = load_experts("atlas_gym.tasks.constructions.experts", "heilbronn_convex_published")
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
