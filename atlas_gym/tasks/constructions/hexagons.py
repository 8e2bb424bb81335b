"""ATLAS-Construct-Hexagons-v0: unit hexagons in a hexagon that is as small as can be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import cosine_and_sine
from atlas_gym.tasks.given_programs import load_experts

_UNIT = 2**120
"""Coordinates are integers, in this unit."""
_ERROR = 2**20
"""More than what a coordinate can be wrong by through the roundings that led to it."""
_FARTHEST = 1000
"""From the origin, in sides: keeps those errors small."""


def honeycomb(n):
    """A honeycomb, row by row"""
    columns = 4
    gap = 1.000000001
    places = [(i % columns, i // columns) for i in range(n)]
    x = [np.sqrt(3) * (column + 0.5 * (row % 2)) * gap for column, row in places]
    y = [1.5 * row * gap for column, row in places]
    hexagons = np.column_stack([x, y, np.full(n, np.pi / 6)])
    return hexagons, [np.mean(x), np.mean(y), 0.0]


class Hexagons(Construction, id="ATLAS-Construct-Hexagons-v0"):
    """
    ## Description
    A program places n regular hexagons with side 1, none reaching into another, so that a regular hexagon around them
    all is as small as it can be. Problem B.7 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-Hexagons-v0", preset="hexagons_12").best_known
    3.94164

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `pack(n)`.

    | Argument | Content                                                                                          |
    |----------|--------------------------------------------------------------------------------------------------|
    | `n`      | number of hexagons                                                                               |
    | returns  | array (n, 3): x, y of each centre and a corner's angle, radians; and of the outer one, array (3,) |

    ## Rewards
    The score is 1 − side / best known, with the side of the smallest outer hexagon with this centre and angle that
    holds all: 0 equals it, above 0 is a record. Sines, cosines and √3 are enclosed in intervals of width 1e-30, and the
    worse end counts: hexagons that touch cannot be told from such that overlap, so leave 1e-12 between them. −1 counts
    as useless, a program that fails or whose hexagons overlap gets −2.

    Best known for 11: 3.930092 (AlphaEvolve), 3.92450 (Berthold et al., January 2026, Kravatsky et al., February 2026,
    on Friedman's page); for 12: 3.9419123 (AlphaEvolve, 14 May 2025), 3.94164 (the same two).

    ## Arguments

    | Keyword      | Default     | Meaning                                             |
    |--------------|-------------|-----------------------------------------------------|
    | `preset`     | `"default"` | `default`, `hexagons_12`                            |
    | `n`          | 11          | number of hexagons                                  |
    | `best_known` | 3.9245      | value that is worth 0; to be given with another `n` |
    """

    function = "pack"
    start = honeycomb
    experts = load_experts("atlas_gym.tasks.constructions.experts", "hexagons_slsqp")
    presets = {"default": {}, "hexagons_12": {"n": 12, "best_known": 3.94164}}
    lower_is_better = True
    source = "Kravatsky et al. on Friedman's page, February 2026"

    n: int = 11
    """Hexagons, 1 to 60."""
    best_known: float = 3.9245

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 60:
            raise ValueError("n must be 1 to 60")

    def arguments(self) -> tuple[int, ...]:
        return (self.n,)

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """An upper bound of the side."""
        inner, outer = answer.parts(2)
        given = np.vstack([inner.array((self.n, 3)), outer.array(3)])
        if (np.abs(given) > _FARTHEST).any():
            answer.refuse("numbers beyond 1,000", f"centres and angles from −{_FARTHEST:,} to {_FARTHEST:,}")
        *hexagons, around = [_placed(*map(Fraction, row)) for row in given.tolist()]
        for (i, a), (j, b) in combinations(enumerate(hexagons), 2):
            if not (_beside(a, b) or _beside(b, a)):
                answer.refuse(
                    f"hexagons {i} and {j} that overlap, or all but touch", "1e-12 between hexagons"
                )
        reach = max(_reach(around, hexagon) for hexagon in hexagons)
        side = Fraction(reach + 8 * _ERROR, _HALF_ROOT)  # with side 1 it would reach √3 / 2
        told = f"The outer hexagon has the side {float(side):.9f}."
        return side, told, {"hexagons": given[:-1], "outer": np.append(given[-1], float(side))}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The hexagons and the one around them."""
        for x, y, angle in traces["hexagons"]:
            axes.fill(*_outline(x, y, angle, 1.0), alpha=0.4)
        axes.fill(*_outline(*traces["outer"]), fill=False)
        axes.set(aspect="equal")


_HALF_ROOT = math.isqrt(3 * (_UNIT // 2) ** 2)
"""√3 / 2, rounded down."""


def _outline(x: float, y: float, angle: float, side: float) -> np.ndarray:
    turns = angle + np.arange(6) * np.pi / 3
    return np.array([x + side * np.cos(turns), y + side * np.sin(turns)])


@dataclass(frozen=True)
class _Hexagon:
    """A hexagon with side 1 in units, each coordinate right to `_ERROR`."""

    center: tuple[int, int]
    corners: list[tuple[int, int]]
    normals: list[tuple[int, int]]
    """Of the edges: outward, of length 1."""


def _placed(x: Fraction, y: Fraction, angle: Fraction) -> _Hexagon:
    cosine, sine = (int(part * _UNIT) for part in cosine_and_sine(angle))
    center = int(x * _UNIT), int(y * _UNIT)
    turned = [((cosine * c - sine * s) // _UNIT, (sine * c + cosine * s) // _UNIT) for c, s in _TWELFTHS]
    return _Hexagon(center, [(center[0] + c, center[1] + s) for c, s in turned[::2]], turned[1::2])


def _beside(a: _Hexagon, b: _Hexagon) -> bool:
    """Whether b lies surely behind one of the edges of a. If two are apart, one lies behind an edge of the other."""
    x, y = a.center
    behind = (_HALF_ROOT + 1 + _ERROR) * _UNIT
    return any(min((u - x) * c + (v - y) * s for u, v in b.corners) > behind for c, s in a.normals)


def _reach(around: _Hexagon, hexagon: _Hexagon) -> int:
    """How far a hexagon reaches from a centre, across the edges of the one around it, in units."""
    x, y = around.center
    return max((u - x) * c + (v - y) * s for u, v in hexagon.corners for c, s in around.normals) // _UNIT


_TWELFTHS = [(_UNIT, 0), (_HALF_ROOT, _UNIT // 2), (_UNIT // 2, _HALF_ROOT)]
"""Cosine and sine of the multiples of 30 degrees, in units."""
for _ in range(9):  # each a right angle on from the one three before
    _TWELFTHS.append((-_TWELFTHS[-3][1], _TWELFTHS[-3][0]))
