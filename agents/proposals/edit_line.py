"""Style ``edit_line``: the model writes the rest of one line, everything else stays the parent's.

Small models cannot write a whole function that is both valid and new, but most of their single lines are. A
site begins after the ``=`` of an assignment, after ``return``, or after the ``in`` of a loop.
"""

import ast
from dataclasses import dataclass

from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite, PartStyle


@dataclass(frozen=True)
class EditLine(PartStyle):
    """Rewrites the right side of one line."""

    name = "edit_line"
    changes = "changes one line of"

    def places(self, source: Source) -> list[EditSite]:
        """One site per simple statement with a right side."""
        found = [line_site(source, node) for node in source.nodes(ast.stmt)]
        return sorted((site for site in found if site is not None), key=lambda site: site.start)


def line_site(source: Source, node: ast.stmt) -> EditSite | None:
    """Where the right side of a statement can be rewritten; None if it cannot."""
    value = right_side(node)
    if (
        value is None
        or not source.starts_its_line(node)
        or not node.lineno == value.lineno == value.end_lineno
    ):
        return None
    line = node.lineno - 1
    # An opening bracket belongs to the right side, but not to the node it encloses.
    beginning = source.left(value).rstrip(" \t(")
    if source.lines[line].endswith("\\") or not beginning.endswith(("=", "return", " in", "\tin")):
        return None
    start, avoid = source.starts[line] + len(beginning), source.code(line)[len(beginning) :].rstrip()
    return EditSite(" ".join(beginning.split()), start, source.end(line), avoid=avoid)


def right_side(node: ast.stmt) -> ast.expr | None:
    """What stands right of a simple statement's ``=``, ``return`` or ``in``; None where no edit makes sense."""
    if isinstance(node, ast.For):
        return node.iter if node.body[0].lineno > node.lineno else None
    if node.end_lineno != node.lineno:
        return None
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
        return None
    unpacks = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    if unpacks and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return None  # `K, d = context.shape`: a fact, not a choice
    return node.value
