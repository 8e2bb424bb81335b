"""What the three autocorrelation inequalities have in common: step functions, judged by their autoconvolution."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.constructions.construction import Construction
from atlas_gym.tasks.constructions.exact import convolved, heights


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
