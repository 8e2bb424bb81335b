"""ATLAS-Construct-Autocorrelation3-v0: a step function with a sign whose autoconvolution has a low peak."""

from fractions import Fraction

import numpy as np

from atlas_gym.tasks.constructions.autocorrelation import Autocorrelation
from atlas_gym.tasks.given_programs import load_experts


def dented_plateau():
    """A plateau with dents below zero"""
    steps = 60
    period = 12
    depth = -0.2
    found = np.ones(steps)
    found[period // 2 :: period] = depth
    return found


class ThirdAutocorrelation(Autocorrelation, id="ATLAS-Construct-Autocorrelation3-v0"):
    """
    ## Description
    For a function f on [−1/4, 1/4], which may be negative, C is the maximum of its autoconvolution f * f over the
    square of its integral; a program gives a step function for which C is as small as it can be. This is problem B.3
    of AlphaEvolve (Novikov et al., 14 May 2025) as its published value was computed; with |f * f| instead, which
    preset `absolute` asks for, that value was 1.4688.

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-Autocorrelation3-v0").best_known
    1.45230433

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `heights()`.

    | Argument | Content                                                              |
    |----------|----------------------------------------------------------------------|
    | returns  | array (steps,), 1 to 100,000 heights of equally wide steps, any unit |

    ## Rewards
    The score is 1 − C / best known: 0 equals it, above 0 is a record. C is 2 n max_k Σ h_i h_{k−i} / (Σ h)² for n
    steps, a rational number, and computed as one. −1 counts as useless, a program that fails or whose integral is not
    above 0 gets −2.

    Best known: 1.45810 (Vinuesa 2010), 1.4557 (AlphaEvolve, 14 May 2025: 1.4556428), 1.454555 (EinsteinArena, March
    2026), 1.4523043 (OrganonAgent on EinsteinArena, 20 April 2026). With |f * f|: 1.4688 (AlphaEvolve).

    ## Arguments

    | Keyword      | Default     | Meaning                                      |
    |--------------|-------------|----------------------------------------------|
    | `preset`     | `"default"` | `default`, `absolute`                        |
    | `absolute`   | False       | whether the maximum is of the absolute value |
    | `best_known` | 1.45230433  | value that is worth 0                        |
    """

    start = dented_plateau
    experts = load_experts("atlas_gym.tasks.constructions.experts", "autocorrelation_third")
    presets = {"default": {}, "absolute": {"absolute": True, "best_known": 1.4687}}
    lower_is_better = True
    signed = True
    source = "EinsteinArena, 20 April 2026; absolute: AlphaEvolve, 14 May 2025"

    absolute: bool = False
    """Whether the maximum is of the absolute value."""
    best_known: float = 1.45230433

    def quotient(self, heights: list[int], corners: list[int]) -> Fraction:
        peak = max(map(abs, corners)) if self.absolute else max(corners)
        return Fraction(2 * len(heights) * peak, sum(heights) ** 2)
