"""ATLAS-Construct-Kissing-v0: as many directions as can be, any two of them at least 60 degrees apart."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import whole
from atlas_gym.tasks.given_programs import load_experts


def one_after_the_other(dimension):
    """Vectors with a few entries ±1, each kept if it is far enough from those before"""
    import itertools

    nonzero = 2
    found = np.zeros((0, dimension), dtype=int)
    for places in itertools.combinations(range(dimension), nonzero):
        for signs in itertools.product((1, -1), repeat=nonzero):
            vector = np.zeros(dimension, dtype=int)
            vector[list(places)] = signs
            if (2 * found @ vector <= nonzero).all():
                found = np.vstack([found, vector])
    return found


_MOST_BITS = 2**28
"""Of all inner products: half a minute of integer arithmetic."""


class Kissing(Construction, id="ATLAS-Construct-Kissing-v0"):
    """
    ## Description
    A program gives as many vectors as it can, any two of them at least 60 degrees apart: then that many balls touch
    one of their size. Problem B.11 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-Kissing-v0").best_known
    604

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `vectors(dimension)`.

    | Argument    | Content                                                                               |
    |-------------|---------------------------------------------------------------------------------------|
    | `dimension` | of the space                                                                          |
    | returns     | array (count, dimension) of numbers, or (count, dimension, 2): p + q √2 for p and q   |

    The lengths do not matter; at most 1,000 vectors.

    ## Rewards
    The number of vectors over the best known, minus 1: 0 equals it, above 0 is a record. Angles are decided in
    integers, also with √2: nothing is rounded. −1 counts as useless, a program that fails or gives a zero vector or
    two that are closer than 60 degrees gets −2.

    Best known in dimension 11: 592 (Ganzhinov, July 2022), 593 (AlphaEvolve, 14 May 2025), 604 (EinsteinArena, Bianchi
    et al., arXiv 2606.10402, June 2026, and Station, 14 June 2026), whose coordinates have √2.

    ## Arguments

    | Keyword      | Default     | Meaning                                                     |
    |--------------|-------------|-------------------------------------------------------------|
    | `preset`     | `"default"` | `default`                                                   |
    | `dimension`  | 11          | of the space                                                |
    | `best_known` | 604         | number that is worth 0; to be given with another dimension  |
    """

    function = "vectors"
    start = one_after_the_other
    experts = load_experts("atlas_gym.tasks.constructions.experts", "kissing_582", "kissing_604")
    source = "EinsteinArena, June 2026"

    dimension: int = 11
    """Of the space, 1 to 24."""
    best_known: int = 604

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.dimension <= 24:
            raise ValueError("dimension must be 1 to 24")

    def arguments(self) -> tuple[int, ...]:
        return (self.dimension,)

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """The number of vectors."""
        given = answer.array()
        if given.ndim == 2:
            given = np.stack([given, np.zeros_like(given)], axis=2)
        if given.ndim != 3 or given.shape[1:] != (self.dimension, 2) or not 1 <= len(given) <= 1000:
            wanted = f"1 to 1,000 vectors, an array (count, {self.dimension}) or (count, {self.dimension}, 2)"
            answer.refuse(f"an array of shape {answer.array().shape}", wanted)
        coordinates = whole(given)
        bits = max(abs(entry).bit_length() for entry in coordinates.flat)
        if len(given) ** 2 * bits > _MOST_BITS:
            answer.refuse(
                f"coordinates of {bits} bits, too many to be multiplied exactly", "e.g. whole numbers"
            )
        p, q = np.moveaxis(coordinates, 2, 0)
        # Inner products p + q √2, and what a pair at 60 degrees would have: 4 ⟨x, y⟩² = ⟨x, x⟩ ⟨y, y⟩.
        inner = p @ p.T + 2 * (q @ q.T), p @ q.T + q @ p.T
        norm = inner[0].diagonal(), inner[1].diagonal()
        if not (norm[0] > 0).all():
            answer.refuse("a zero vector", "vectors that are not zero")
        slack = _product(norm[0][:, None], norm[1][:, None], *norm)
        squared = _product(*inner, *inner)
        near = ~_negative(*inner) & _negative(slack[0] - 4 * squared[0], slack[1] - 4 * squared[1])
        np.fill_diagonal(near, False)
        if near.any():
            i, j = np.argwhere(near)[0].tolist()
            answer.refuse(
                f"vectors {i} and {j} less than 60 degrees apart", "vectors at least that far apart"
            )
        touching = (
            int((~_negative(*inner) & (slack[0] == 4 * squared[0]) & (slack[1] == 4 * squared[1])).sum()) // 2
        )
        told = f"{len(given)} vectors; {touching} pairs are 60 degrees apart, the others more."
        projected = given[:, :, 0].astype(float) + np.sqrt(2) * given[:, :, 1]
        return Fraction(len(given)), told, {"vectors": projected}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The directions, seen along the axes of their principal components."""
        unit = traces["vectors"] / np.linalg.norm(traces["vectors"], axis=1, keepdims=True)
        axes.plot(*(unit @ np.linalg.svd(unit, full_matrices=False)[2][:2].T).T, ".")
        axes.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal")


def _product(p: Any, q: Any, r: Any, s: Any) -> tuple[Any, Any]:
    """(p + q √2) (r + s √2)."""
    return p * r + 2 * q * s, p * s + q * r


def _negative(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Whether p + q √2 is below 0, of integers."""
    squares = p * p - 2 * q * q
    below = ((p < 0) & ((q <= 0) | (squares > 0))) | ((p >= 0) & (q < 0) & (squares < 0))
    return below.astype(bool)
