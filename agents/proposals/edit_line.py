"""Style ``edit_line``: the model writes the rest of one line, everything else stays the parent's.

Small models cannot write a whole function that is both valid and new, but most of their single lines are. A
hole begins after the ``=`` of an assignment, after ``return``, or after the ``in`` of a loop.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np

from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals.source import Source
from agents.proposals.style import Hole, Showing, versions


@dataclass(frozen=True)
class EditLine:
    """Rewrites the right side of one line."""

    function: str
    """Name of the entry function."""
    numbers: bool = True
    """Whether right sides that are nothing but a number are rewritten too; off, constants are left to the style
    ``numeric`` and the model's samples go to structure."""

    name = "edit_line"

    def holes(self, program: str) -> list[Hole]:
        """One hole per simple statement with a right side, in the order of the lines."""
        source = Source.by_lines(program, self.function)
        if source is None:
            return []
        found = [
            _hole(source, node) for node in source.nodes(ast.stmt) if self.numbers or not _is_number(node)
        ]
        return sorted((hole for hole in found if hole is not None), key=lambda hole: hole.line)

    def propose(self, parent: CandidateRecord, hole: Hole, showing: Showing) -> Proposal:
        """Prompt: the versions so far, then ``f_v2`` up to the hole."""
        source = Source.of(parent.program, self.function)
        line = source.lines[hole.line]
        beginning = line[: hole.column]
        kept = source.function_text(f"{self.function}_v2", hole.line)
        return Proposal(
            style=self.name,
            parent_id=parent.id,
            parent_score=parent.score,
            parent_key=parent.program_key,
            hole=hole.label,
            prompt=versions(source, showing)
            + f"# {self.function}_v2 changes one line of {self.function}_v1\n"
            + "\n".join([kept, *_remarks(line, showing), beginning]),
            avoid=line[hole.column : source.comments.get(hole.line)].rstrip(),
            stop="line",
            head="".join(f"{kept_line}\n" for kept_line in source.lines[: hole.line]) + beginning,
            tail="\n" + "".join(f"{later}\n" for later in source.lines[hole.line + 1 :]),
        )

    def write(self, proposal: Proposal, n: int, rng: np.random.Generator) -> None:
        """Needs a model."""


def _remarks(line: str, showing: Showing) -> list[str]:
    """Other programs' versions of the line as comments above it."""
    indent = line[: len(line) - len(line.lstrip())]
    return [f"{indent}# score {score:.3f}: {text.strip()}" for score, text in showing.variants]


def _hole(source: Source, node: ast.stmt) -> Hole | None:
    value = _right_side(node)
    if (
        value is None
        or not source.starts_its_line(node)
        or not node.lineno == value.lineno == value.end_lineno
    ):
        return None
    line = node.lineno - 1
    text = source.lines[line]
    # An opening bracket belongs to the right side, but not to the node it encloses.
    beginning = text[: source.column(line, value.col_offset)].rstrip(" \t(")
    if text.endswith("\\") or not beginning.endswith(("=", "return", " in", "\tin")):
        return None
    return Hole(" ".join(beginning.split()), line, len(beginning))


def _is_number(node: ast.stmt) -> bool:
    value = _right_side(node)
    value = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def _right_side(node: ast.stmt) -> ast.expr | None:
    """What stands right of a simple statement's ``=``, ``return`` or ``in``; None where no edit makes
    sense."""
    if isinstance(node, ast.For):
        return node.iter if node.body[0].lineno > node.lineno else None
    if isinstance(node, ast.Assign):
        return None if _unpacks_shape(node) else _if_it_ends_there(node, node.value)
    if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.Return) and node.value is not None:
        return _if_it_ends_there(node, node.value)
    return None


def _if_it_ends_there(node: ast.stmt, value: ast.expr) -> ast.expr | None:
    return value if node.end_lineno == node.lineno else None


def _unpacks_shape(node: ast.Assign) -> bool:
    """``K, d = context.shape``: a fact, not a choice."""
    unpacks = isinstance(node.targets[0], ast.Tuple)
    return unpacks and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
