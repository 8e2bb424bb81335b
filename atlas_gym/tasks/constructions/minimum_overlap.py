"""ATLAS-Construct-MinimumOverlap-v0: a function that overlaps little with what it leaves free, at any shift."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import convolved, heights
from atlas_gym.tasks.given_programs import load_experts


def bump():
    """Higher in the middle"""
    steps = 40
    power = 0.5
    t = np.linspace(-1, 1, steps)
    shape = (1 - np.abs(t)) ** power
    return 0.2 + 0.6 * shape


class MinimumOverlap(Construction, id="ATLAS-Construct-MinimumOverlap-v0"):
    """
    ## Description
    For a function h from [0, 2] to [0, 1] with integral 1, C is the maximum over all shifts k of the integral of
    h(x) (1 − h(x + k)) where x + k is in [0, 2]; a program gives a step function for which C is as small as it can be.
    C bounds Erdős' minimum overlap (Haugland 1996, 2016). Problem B.5 of AlphaEvolve (Novikov et al., 14 May 2025).

    >>> import atlas_gym
    >>> atlas_gym.make_task("ATLAS-Construct-MinimumOverlap-v0").best_known
    0.380859

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `heights()`.

    | Argument | Content                                                              |
    |----------|----------------------------------------------------------------------|
    | returns  | array (steps,), 1 to 20,000 heights of equally wide steps, any unit  |

    The heights are divided, exactly, by what makes their integral 1; none may then be above 1.

    ## Rewards
    The score is 1 − C / best known: 0 equals it, above 0 is a record. The overlap is largest at a shift by whole
    steps, where it is a rational number, and computed as one. −1 counts as useless, a program that fails or gives a
    height below 0 or above twice the mean gets −2. Stay below by 1e-12.

    Best known: 0.380927 (Haugland 2016), 0.380924 (AlphaEvolve, 14 May 2025), 0.380876 (TTT-Discover, January 2026),
    0.380871 (EinsteinArena, April 2026), 0.38086945 (AutoEvolver, 25 March 2026), 0.380868 (SimpleTES, arXiv
    2604.19341, April 2026), 0.380859 (hyra-results, 2026, known from what others say of it).
    """

    function = "heights"
    start = bump
    experts = load_experts("atlas_gym.tasks.constructions.experts", "minimum_overlap")
    lower_is_better = True
    source = "hyra-results, 2026; 0.380868 SimpleTES, April 2026"

    best_known: float = 0.380859

    def judged(self, answer: Answer) -> tuple[Fraction, str, dict[str, np.ndarray]]:
        """C."""
        steps, numbers = heights(answer, 20_000)
        n, twice = len(numbers), 2 * sum(numbers)
        if n * max(numbers) > twice:
            answer.refuse(
                "a height above twice the mean height", "a function that is at most 1 where its integral is 1"
            )
        free = [twice - n * number for number in numbers]  # with the heights n h / twice: what is left of 1
        value = Fraction(max(convolved(numbers, free[::-1])), twice**2 // 2)
        return value, f"C is {float(value):.9f} with {n} steps.", {"heights": steps}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The function, and the overlap for all shifts."""
        n = len(traces["heights"])
        h = traces["heights"] / traces["heights"].sum() * n / 2
        axes.stairs(h, np.linspace(0, 2, n + 1), fill=True, alpha=0.4, label="h")
        overlap = np.convolve(h, 1 - h[::-1]) * 2 / n
        axes.plot(np.linspace(-2, 2, 2 * n + 1)[1:-1], overlap, label="overlap by shift")
        axes.legend()
