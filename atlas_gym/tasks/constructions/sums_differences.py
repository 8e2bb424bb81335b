"""ATLAS-Construct-SumsDifferences-v0: a set of integers with few sums and many differences."""

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.given_programs import load_experts

_MOST = 4_000
"""Integers in a set: 16 million sums are sorted in a second or two."""
_LARGEST = 2**62 - 1
_DIGITS = Context(prec=40, rounding=ROUND_FLOOR)
"""Of logarithms; `decimal` rounds its own correctly, so that each is off by at most 1 in the last digit."""
_ERROR = Fraction(1, 10**36)
"""More than what the rounding of three logarithms and a quotient comes to."""


def conway():
    """Conway's set, which has more sums than differences, stretched"""
    stretch = 1
    return stretch * np.array([0, 2, 3, 4, 7, 11, 12, 14])


class SumsDifferences(Construction, id="ATLAS-Construct-SumsDifferences-v0"):
    """
    ## Description
    A program gives a finite set U of integers from 0 on. θ = 1 + log(|U − U| / |U + U|) / log(2 max U + 1) is to be as
    large as it can be (Gyarmati, Hennecart and Ruzsa 2007). Problem B.6 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-SumsDifferences-v0").best_known
    1.147988897

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `integers()`.

    | Argument | Content                                                                                  |
    |----------|------------------------------------------------------------------------------------------|
    | returns  | array (count,) of 2 to 4,000 different whole numbers from 0 to 2^62 − 1, the smallest 0  |

    ## Rewards
    The score is θ / best known − 1: 0 equals it, above 0 is a record for a set of this size. Sums and differences are
    counted, and the logarithms are enclosed by 36 decimals, of which the lower end counts. −1 counts as useless, a
    program that fails or repeats a number gets −2.

    Best known: 1.1479888965 with 2,003 numbers (AlphaEvolve, 14 May 2025; printed as 1.1479). Larger sets do better and
    are not judged here: 1.14465 (Gyarmati, Hennecart and Ruzsa 2007), 1.1584 with 54,265 numbers (AlphaEvolve),
    1.173050 with 10^43546 (Gerbicz, arXiv 2505.16105, 22 May 2025), 1.173077 in the limit (Zheng, arXiv 2506.01896,
    2 June 2025).
    """

    function = "integers"
    start = conway
    experts = load_experts("atlas_gym.tasks.constructions.experts", "bounded_simplex")
    source = "AlphaEvolve, 14 May 2025"

    best_known: float = 1.147988897

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """A lower bound of θ."""
        numbers = np.sort(answer.array((-1,), dtype=np.int64))
        if not 2 <= len(numbers) <= _MOST:
            answer.refuse(f"{len(numbers)} integers", f"2 to {_MOST:,}")
        if numbers[0] != 0 or numbers[-1] > _LARGEST:
            answer.refuse(
                f"integers from {numbers[0]} to {numbers[-1]}", "integers from 0 to 2^62 − 1, 0 among them"
            )
        if (numbers[1:] == numbers[:-1]).any():
            answer.refuse("an integer twice", "a set")
        upper = np.triu_indices(len(numbers))
        sums = len(np.unique(numbers[upper[0]] + numbers[upper[1]]))
        differences = 2 * len(np.unique(numbers[upper[1]] - numbers[upper[0]])) - 1
        top, bottom, base = (_DIGITS.ln(Decimal(n)) for n in (differences, sums, 2 * int(numbers[-1]) + 1))
        theta = 1 + Fraction(_DIGITS.divide(_DIGITS.subtract(top, bottom), base)) - _ERROR
        told = f"{len(numbers)} integers to {numbers[-1]}, {sums} sums, {differences} differences: {float(theta):.6f}"
        return theta, told, {"integers": numbers}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """How the integers lie."""
        axes.eventplot(traces["integers"], linewidths=0.5)
        axes.set(yticks=[], xlabel="integers")
