"""What a rule says about a program, and the material it works on."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

import numpy as np

from agents.proposals.source import Source, Splice
from agents.supporters.exploration import ExplorationRequest


@dataclass(frozen=True)
class Case:
    """One program under examination."""

    code: Source
    """The parsed program."""
    request: ExplorationRequest
    """What the supporter was told."""
    rng: np.random.Generator
    """The consultation's random stream."""

    def failed_with(self, *words: str) -> bool:
        """Whether a recent failure's status or text mentions one of the words."""
        texts = [f"{failure.status} {failure.detail}".lower() for failure in self.request.failures]
        return any(word in text for word in words for text in texts)

    def factor(self, low: float, high: float) -> float:
        """A random factor, uniform in its logarithm, never within 10 % of 1."""
        while True:
            factor = math.exp(self.rng.uniform(math.log(low), math.log(high)))
            if abs(factor - 1) >= 0.1:
                return factor


@dataclass(frozen=True)
class Fix:
    """One way to act on a finding."""

    splices: tuple[Splice, ...]
    """The edits."""
    reason: str
    """What they are to achieve."""


@dataclass(frozen=True)
class Finding:
    """Something a rule noticed."""

    kind: str
    """The rule's name."""
    message: str
    """One sentence for the critique."""
    priority: float
    """Relative probability that its fixes are tried, > 0."""
    fixes: tuple[Fix, ...] = ()
    """Ways to act on it; none if only the agent can."""


def past(case: Case) -> set[str]:
    """Arguments that may hold past data: all but what describes the present step."""
    return set(case.code.arguments) - {"context", "t", "extras"}


def sampled(case: Case) -> set[str]:
    """Variables that are read off past data."""
    return {
        target.id
        for statement in case.code.nodes(ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and case.code.names(statement.value) & past(case)
    }


def short(value: float) -> str:
    """Source text of a number with two significant digits, an integer if ``value`` is one."""
    return str(value) if isinstance(value, int) else repr(float(f"{value:.2g}"))
