"""ATLAS-Construct-Hadamard-v0: a matrix of 1 and −1 with a large determinant."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.given_programs import load_experts


def quadratic_residues(n):
    """Differences that are squares modulo n, or not"""
    diagonal = 1
    squares = {k * k % n for k in range(1, n)}
    found = np.array([[1 if (i - j) % n in squares else -1 for j in range(n)] for i in range(n)])
    np.fill_diagonal(found, diagonal)
    return found


class Hadamard(Construction, id="ATLAS-Construct-Hadamard-v0"):
    """
    ## Description
    A program gives an n × n matrix of 1 and −1 whose determinant is as large as it can be, whatever its sign.

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-Hadamard-v0").best_known == 320 * 7**12 * 2**28
    True

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `matrix(n)`.

    | Argument | Content                          |
    |----------|----------------------------------|
    | `n`      | rows and columns                 |
    | returns  | array (n, n) of 1 and −1         |

    ## Rewards
    The determinant, without its sign, over the best known, minus 1: 0 equals it, above 0 is a record. It is computed in
    integers (Bareiss 1968). −1 counts as useless (a singular matrix), a program that fails gets −2.

    Best known for 29: 320 · 7^12 · 2^28, which is 0.865 of Barba's bound √57 · 28^14 (Solomon, 6 July 2002, printed in
    Orrick, Solomon, Dowdeswell and Smith, arXiv math/0304410, 2003; both as public repositories cite them).

    ## Arguments

    | Keyword      | Default          | Meaning                                         |
    |--------------|------------------|-------------------------------------------------|
    | `preset`     | `"default"`      | `default`                                       |
    | `n`          | 29               | rows and columns                                |
    | `best_known` | 320 · 7^12 · 2^28 | value that is worth 0; to be given with `n`    |
    """

    function = "matrix"
    start = quadratic_residues
    experts = load_experts("atlas_gym.tasks.constructions.experts", "hadamard_published")
    source = "Solomon, July 2002, in arXiv math/0304410, 2003"

    n: int = 29
    """Rows and columns, 1 to 100."""
    best_known: int = 320 * 7**12 * 2**28

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 100:
            raise ValueError("n must be 1 to 100")

    def arguments(self) -> tuple[int, ...]:
        return (self.n,)

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """The determinant without its sign."""
        matrix = answer.array((self.n, self.n))
        if not (np.abs(matrix) == 1).all():
            answer.refuse("entries other than 1 and −1", "a matrix of 1 and −1")
        value = abs(determinant([[int(entry) for entry in row] for row in matrix]))
        told = f"The determinant is {value}, {value / float(self.best_known):.6f} of the best known."
        return Fraction(value), told, {"matrix": matrix}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The matrix, 1 dark."""
        axes.imshow(traces["matrix"], cmap="Greys")
        axes.set(xticks=[], yticks=[])


def determinant(rows: list[list[int]]) -> int:
    """Of a matrix of integers, whose rows are overwritten, without fractions (Bareiss 1968)."""
    sign, last = 1, 1
    for k in range(len(rows) - 1):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot], sign = rows[pivot], rows[k], -sign
        for row in rows[k + 1 :]:
            row[k + 1 :] = [
                (entry * rows[k][k] - row[k] * above) // last
                for entry, above in zip(row[k + 1 :], rows[k][k + 1 :], strict=True)
            ]
        last = rows[k][k]
    return sign * rows[-1][-1]
