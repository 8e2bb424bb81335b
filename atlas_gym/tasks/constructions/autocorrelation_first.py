"""ATLAS-Construct-Autocorrelation1-v0: a step function whose autoconvolution has a low peak."""

from fractions import Fraction

import numpy as np

from atlas_gym.tasks.constructions.autocorrelation import Autocorrelation
from atlas_gym.tasks.given_programs import load_experts


def two_levels():
    """A plateau, higher at its ends"""
    steps = 60
    border = 10
    height = 1.5
    found = np.ones(steps)
    found[:border] = found[-border:] = height
    return found


class FirstAutocorrelation(Autocorrelation, id="ATLAS-Construct-Autocorrelation1-v0"):
    """
    ## Description
    For a function f ≥ 0 on [−1/4, 1/4], C is the maximum of its autoconvolution f * f over the square of its integral;
    a program gives a step function for which C is as small as it can be. Problem B.1 of AlphaEvolve (Novikov et al.,
    14 May 2025): C bounds the size of sets whose sums hardly repeat.

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-Autocorrelation1-v0").best_known
    1.50285031

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `heights()`.

    | Argument | Content                                                              |
    |----------|----------------------------------------------------------------------|
    | returns  | array (steps,), 1 to 100,000 heights of equally wide steps, any unit |

    ## Rewards
    The score is 1 − C / best known: 0 equals it, above 0 is a record. f * f has its maximum at one of its corners, so
    C is 2 n max_k Σ h_i h_{k−i} / (Σ h)² for n steps, a rational number, and computed as one. −1 counts as useless, a
    program that fails or gives a height below 0 gets −2.

    Best known: 1.5053 (AlphaEvolve, 14 May 2025), 1.5032 (Georgiev et al., November 2025), 1.5028629 (TTT-Discover,
    January 2026, and EinsteinArena, April 2026), 1.50285031 (a certified bound that was reported in 2026; its authors'
    page was seen, its data was not).

    """

    start = two_levels
    experts = load_experts("atlas_gym.tasks.constructions.experts", "autocorrelation_first")
    lower_is_better = True
    source = "a certified bound, 2026; 1.5028629 EinsteinArena, April 2026"

    best_known: float = 1.50285031

    def quotient(self, heights: list[int], corners: list[int]) -> Fraction:
        return Fraction(2 * len(heights) * max(corners), sum(heights) ** 2)
