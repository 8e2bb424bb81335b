"""Style ``complete``: the beginning of the parent stays, the model writes the function from there to its end.

It can change several lines that depend on each other, which ``edit_line`` cannot. Holes are the ends of the
function's top-level statements, roughly from a quarter to three quarters of its body.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np

from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals.source import Source
from agents.proposals.style import Hole, Showing, versions


@dataclass(frozen=True)
class Complete:
    """Regenerates the rest of the function."""

    function: str
    """Name of the entry function."""
    earliest: float = 0.25
    """Smallest share of the body's statements that is kept, in [0, 1]."""
    latest: float = 0.75
    """Largest share of the body's statements that is kept, in [0, 1]."""

    name = "complete"

    def holes(self, program: str) -> list[Hole]:
        """One hole after each statement in the middle of the body."""
        source = Source.by_lines(program, self.function)
        if source is None:
            return []
        body = source.function.body
        ends = range(max(1, round(self.earliest * len(body))), round(self.latest * len(body)) + 1)
        return [
            _after(source, body[end - 1])
            for end in ends
            if end < len(body) and _apart(*body[end - 1 : end + 1])
        ]

    def propose(self, parent: CandidateRecord, hole: Hole, showing: Showing) -> Proposal:
        """Prompt: the versions so far, then the kept part of ``f_v2``."""
        source = Source.of(parent.program, self.function)
        kept, rest = source.lines[: hole.line + 1], source.lines[hole.line + 1 : source.last + 1]
        return Proposal(
            style=self.name,
            parent_id=parent.id,
            parent_score=parent.score,
            parent_key=parent.program_key,
            hole=hole.label,
            prompt=versions(source, showing) + source.function_text(f"{self.function}_v2", hole.line + 1),
            avoid="\n" + "\n".join(rest),
            stop="function",
            head="\n".join(kept),
            tail="".join(f"\n{line}" for line in source.lines[source.last + 1 :]) + "\n",
        )

    def write(self, proposal: Proposal, n: int, rng: np.random.Generator) -> None:
        """Needs a model."""


def _after(source: Source, statement: ast.stmt) -> Hole:
    line = (statement.end_lineno or statement.lineno) - 1
    first = source.lines[statement.lineno - 1].strip()
    assigns = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    label = first[: first.find("=") + 1] if assigns and "=" in first else first
    return Hole(f"after {label}", line, len(source.lines[line]))


def _apart(statement: ast.stmt, following: ast.stmt) -> bool:
    """Whether two neighbouring statements stand on lines of their own."""
    return (statement.end_lineno or statement.lineno) < following.lineno
