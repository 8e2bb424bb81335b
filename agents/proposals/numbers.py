"""Writer ``numbers``: change one number of the parent, without any model.

A constant is multiplied by a factor drawn log-uniformly. It leaves constants to cheap search, so that a model's
samples go to structure, and alone it is the control that shows how much of a gain is nothing but tuned constants.
"""

import ast
import math
from dataclasses import dataclass

import numpy as np

from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals.constants import numbers
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite, PartStyle, Showing

_SPREAD = 4.0
"""Largest factor by which a constant grows or shrinks."""


@dataclass(frozen=True)
class Numbers(PartStyle):
    """Perturbs one numeric constant."""

    name = "numbers"

    def places(self, source: Source) -> list[EditSite]:
        """One site per number that is not an index or an axis."""
        found = sorted(numbers(source), key=lambda node: (node.lineno, node.col_offset))
        return [
            EditSite(" ".join(source.left(node).split()), *source.place(node), avoid=source.text(node))
            for node in found
        ]

    def prompt(self, source: Source, site: EditSite, showing: Showing) -> str:
        """None; the completion is the new number."""
        return ""

    def write(self, proposal: Proposal, n: int, rng: np.random.Generator) -> tuple[str, ...]:
        """``n`` numbers, none of them the parent's."""
        old = ast.literal_eval(proposal.avoid or "0")
        return tuple(_perturbed(old, rng) for _ in range(n))


def _perturbed(old: int | float, rng: np.random.Generator) -> str:
    if old == 0:
        return f"{10 ** rng.uniform(-2, 0):.3g}" if isinstance(old, float) else str(rng.integers(1, 4))
    new = old * math.exp(rng.uniform(-math.log(_SPREAD), math.log(_SPREAD)))
    if isinstance(old, int):
        rounded = round(new)
        return str(rounded if rounded != old else old + (1 if new >= old else -1))
    text = f"{new:.3g}"
    if float(text) == old:
        text = f"{old * _SPREAD:.3g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"
