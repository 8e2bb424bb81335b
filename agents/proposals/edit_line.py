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

    numbers: bool = True
    """Whether right sides that are nothing but a number are rewritten too; off, constants are left to the style
    ``numeric`` and the model's samples go to structure."""

    name = "edit_line"
    changes = "changes one line of"

    def places(self, source: Source) -> list[EditSite]:
        """One site per simple statement with a right side."""
        return [site for _, site in rewritable(source, self.numbers)]


def rewritable(source: Source, numbers: bool) -> list[tuple[ast.stmt, EditSite]]:
    """The statements that have a right side on one line, with the sites at its beginning, in the order of the lines.

    Args:
        source: the program.
        numbers: whether those count whose right side is nothing but a number.
    """
    found = [
        (node, _site(source, node)) for node in source.nodes(ast.stmt) if numbers or not _is_number(node)
    ]
    return sorted(((node, site) for node, site in found if site is not None), key=lambda pair: pair[1].start)


def _site(source: Source, node: ast.stmt) -> EditSite | None:
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


def _is_number(node: ast.stmt) -> bool:
    value = right_side(node)
    value = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def right_side(node: ast.stmt) -> ast.expr | None:
    """What stands right of a simple statement's ``=``, ``return`` or ``in``; None where no edit makes
    sense."""
    if isinstance(node, ast.For):
        return node.iter if node.body[0].lineno > node.lineno else None
    over_several_lines = node.end_lineno != node.lineno
    if over_several_lines or (isinstance(node, ast.Assign) and _unpacks_shape(node)):
        return None
    return node.value if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return) else None


def _unpacks_shape(node: ast.Assign) -> bool:
    """``K, d = context.shape``: a fact, not a choice."""
    unpacks = isinstance(node.targets[0], ast.Tuple)
    return unpacks and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
