"""ATLAS-Construct-CirclesRectangle-v0: circles in a rectangle of perimeter 4, the sum of their radii large."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import whole
from atlas_gym.tasks.given_programs import load_experts


def grid(n):
    """Equal circles in rows of five"""
    columns = 5
    rows = -(-n // columns)
    radius = 1 / (columns + rows)
    places = np.array([(i % columns, i // columns) for i in range(n)])
    return (2 * places + 1) * radius, np.full(n, radius * (1 - 1e-12))


class CirclesRectangle(Construction, id="ATLAS-Construct-CirclesRectangle-v0"):
    """
    ## Description
    A program places n circles in a rectangle whose width and height add up to 2, none reaching into another, with as
    large a sum of radii as it can. Problem B.13 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-CirclesRectangle-v0").best_known
    2.3658323759

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `pack(n)`.

    | Argument | Content                                                    |
    |----------|------------------------------------------------------------|
    | `n`      | number of circles                                          |
    | returns  | centres, an array (n, 2), and radii, an array (n,), floats |

    The rectangle is the smallest upright one that holds the circles; it may lie anywhere.

    ## Rewards
    The sum of the radii over the best known, minus 1: 0 equals it, above 0 is a record. Overlaps and the rectangle's
    width plus height, at most 2, are decided by rational arithmetic on the very floats returned, without tolerance:
    make radii smaller by 1e-12. −1 counts as useless, a program that fails or whose circles do not fit gets −2.

    Best known for 21: 2.3658321334 (AlphaEvolve), 2.3658323759 (EinsteinArena, 1 April 2026).

    ## Arguments

    | Keyword      | Default        | Meaning                                             |
    |--------------|----------------|-----------------------------------------------------|
    | `preset`     | `"default"`    | `default`                                           |
    | `n`          | 21             | number of circles                                   |
    | `best_known` | 2.3658323759   | value that is worth 0; to be given with another `n` |
    """

    function = "pack"
    start = grid
    experts = load_experts("atlas_gym.tasks.constructions.experts", "rectangle_slsqp")
    source = "EinsteinArena, 1 April 2026"

    n: int = 21
    """Circles, 1 to 200."""
    best_known: float = 2.3658323759

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 200:
            raise ValueError("n must be 1 to 200")

    def arguments(self) -> tuple[int, ...]:
        return (self.n,)

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """The sum of the radii."""
        centers, radii = answer.parts(2)
        circles = np.column_stack([centers.array((self.n, 2)), radii.array(self.n)])
        exact = whole(np.vstack([circles, [(2.0, 0.0, 0.0)]]))
        two, circles_exact = exact[-1, 0], exact[:-1]
        x, y, r = circles_exact.T
        if (r < 0).any():
            answer.refuse("a radius below 0", "radii of at least 0")
        size = (x + r).max() - (x - r).min() + (y + r).max() - (y - r).min()
        if size > two:
            beyond = float(min(Fraction(size - two, two), Fraction(10**300)))
            answer.refuse(f"circles that need width plus height {2 * beyond:.2g} too large", "at most 2")
        for (k, (a, b, c)), (other, (d, e, f)) in combinations(enumerate(circles_exact), 2):
            if (a - d) ** 2 + (b - e) ** 2 < (c + f) ** 2:
                answer.refuse(
                    f"circles {k} and {other} overlapping", "circles apart, e.g. radii smaller by 1e-12"
                )
        total = Fraction(int(r.sum()) * 2, two)
        told = f"The sum of the radii is {float(total):.10f}; the smallest is {circles[:, 2].min():.4f}."
        return total, told, {"circles": circles}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The circles and their rectangle."""
        from matplotlib.patches import Circle, Rectangle

        circles = traces["circles"]
        low, high = (
            (circles[:, :2] - circles[:, 2:]).min(axis=0),
            (circles[:, :2] + circles[:, 2:]).max(axis=0),
        )
        for x, y, r in circles:
            axes.add_patch(Circle((x, y), r, alpha=0.4))
        axes.add_patch(Rectangle(tuple(low), *(high - low), fill=False))
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
