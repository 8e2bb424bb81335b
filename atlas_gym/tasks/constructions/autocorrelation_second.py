"""ATLAS-Construct-Autocorrelation2-v0: a step function whose autoconvolution is nearly flat."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from atlas_gym.tasks.constructions.autocorrelation import Autocorrelation
from atlas_gym.tasks.given_programs import load_experts


def plateau_and_spike():
    """A plateau, and a spike beside it"""
    steps = 60
    width = 30
    spike = 8.0
    found = np.zeros(steps)
    found[:width] = 1.0
    found[-1] = spike
    return found


class SecondAutocorrelation(Autocorrelation, id="ATLAS-Construct-Autocorrelation2-v0"):
    """
    ## Description
    For a function f ≥ 0 with autoconvolution g = f * f, C is ‖g‖₂² / (‖g‖₁ ‖g‖_∞), which is at most 1; a program gives
    a step function for which C is as large as it can be. Problem B.2 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-Autocorrelation2-v0").best_known
    0.962901

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `heights()`.

    | Argument | Content                                                              |
    |----------|----------------------------------------------------------------------|
    | returns  | array (steps,), 1 to 100,000 heights of equally wide steps, any unit |

    ## Rewards
    The score is C / best known − 1: 0 equals it, above 0 is a record. g is linear between its corners y_k, so that
    C = Σ (y_k² + y_k y_{k+1} + y_{k+1}²) / (3 Σ y_k max y_k), a rational number, and computed as one. −1 counts as
    useless, a program that fails or gives a height below 0 gets −2.

    Best known: 0.88922 (Matolcsi and Vinuesa 2010), 0.8962 (AlphaEvolve, 14 May 2025), 0.94136 (Jaech and Joseph 2025),
    0.961021 (Georgiev et al., November 2025), 0.96258 (ImprovEvolve, arXiv 2602.10233, February 2026), 0.962643
    (EinsteinArena, seen 1 June 2026), 0.962901 (reported as certified in 2026; the data was not seen).

    """

    start = plateau_and_spike
    experts = load_experts("atlas_gym.tasks.constructions.experts", "autocorrelation_second")
    source = "a certified bound, 2026; 0.962643 EinsteinArena, 1 June 2026"

    best_known: float = 0.962901

    def quotient(self, heights: list[int], corners: list[int]) -> Fraction:
        squares = sum(a * a + a * b + b * b for a, b in pairwise([0, *corners, 0]))
        return Fraction(squares, 3 * sum(corners) * max(corners))
