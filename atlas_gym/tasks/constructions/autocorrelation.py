"""ATLAS-Construct-Autocorrelation1-v0, -2-v0 and -3-v0: step functions, by the peak or the norms of their
autoconvolution."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import convolved, heights
from atlas_gym.tasks.given_programs import load_experts

_EXPERTS = "atlas_gym.tasks.constructions.experts"


class Autocorrelation(Construction):
    """A step function, and a quotient C of its autoconvolution's corners, which subclasses define."""

    function = "heights"
    signed: ClassVar[bool] = False
    """Whether heights may be negative."""

    def quotient(self, heights: list[int], corners: list[int]) -> Fraction:
        """C, of heights whose sum is positive."""
        raise NotImplementedError

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """C."""
        steps, numbers = heights(answer, 100_000, signed=self.signed)
        value = self.quotient(numbers, convolved(numbers, numbers))
        shown = float(min(value, Fraction(10**300)))
        return value, f"C is {shown:.9f} with {len(numbers)} steps.", {"heights": steps}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The function on [−1/4, 1/4], scaled to integral 1, and its autoconvolution."""
        n = len(traces["heights"])
        density = traces["heights"] / traces["heights"].sum() * 2 * n
        axes.stairs(density, np.linspace(-0.25, 0.25, n + 1), fill=True, alpha=0.4, label="f")
        corners = np.concatenate([[0.0], np.convolve(density, density), [0.0]]) / (2 * n)
        axes.plot(np.linspace(-0.5, 0.5, 2 * n + 1), corners, label="f * f")
        axes.legend()


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
    experts = load_experts(_EXPERTS, "autocorrelation_first")
    lower_is_better = True
    source = "a certified bound, 2026; 1.5028629 EinsteinArena, April 2026"

    best_known: float = 1.50285031

    def quotient(self, heights: list[int], corners: list[int]) -> Fraction:
        return Fraction(2 * len(heights) * max(corners), sum(heights) ** 2)


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
    experts = load_experts(_EXPERTS, "autocorrelation_second")
    source = "a certified bound, 2026; 0.962643 EinsteinArena, 1 June 2026"

    best_known: float = 0.962901

    def quotient(self, heights: list[int], corners: list[int]) -> Fraction:
        squares = sum(a * a + a * b + b * b for a, b in pairwise([0, *corners, 0]))
        return Fraction(squares, 3 * sum(corners) * max(corners))


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
    experts = load_experts(_EXPERTS, "autocorrelation_third")
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
