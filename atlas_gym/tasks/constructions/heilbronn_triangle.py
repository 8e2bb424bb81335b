"""ATLAS-Construct-HeilbronnTriangle-v0: points in a triangle."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.exact import whole
from atlas_gym.tasks.constructions.heilbronn import Heilbronn
from atlas_gym.tasks.given_programs import load_experts


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

    start = along_a_curve
    experts = load_experts("atlas_gym.tasks.constructions.experts", "heilbronn_triangle_published")
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
