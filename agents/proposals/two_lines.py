"""Style ``two_lines``: the model writes an assignment's right side, a line below that hangs on it, and what is between.

Two arrays that are cut to one length, or a variable and the formula that uses it, have to change together: changed by
itself, neither line runs. A site joins an assignment to the next one, or to the next line that uses what it assigns.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from atlas_gym.agents.engines.engine import Stop
from atlas_gym.agents.proposals.edit_line import rewritable, right_side
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite, PartStyle

Rewritable = tuple[ast.stmt, EditSite]
"""A statement and the site of its right side."""

_STOPS: Mapping[int, Stop] = {2: "2 lines", 3: "3 lines", 4: "4 lines"}
"""Where a completion of so many lines ends; no two lines are further apart."""


@dataclass(frozen=True)
class TwoLines(PartStyle):
    """Rewrites two lines that depend on each other."""

    numbers: bool = True
    """Whether lines that only set a number are among the two; see :class:`agents.proposals.EditLine`."""

    name = "two_lines"
    changes = "changes two lines of"

    def places(self, source: Source) -> list[EditSite]:
        """One or two sites per assignment."""
        found: dict[tuple[str, int], EditSite] = {}
        for (top, first), (bottom, second) in _pairs(rewritable(source, self.numbers)):
            lines = range(top.lineno - 1, bottom.lineno)
            written = "\n".join(source.code(line) for line in lines)[first.start - source.starts[lines[0]] :]
            label = f"{first.label} & {second.label}"
            site = EditSite(label, first.start, second.end, _STOPS[len(lines)], written)
            found.setdefault((label, first.start), site)
        return list(found.values())


def _pairs(lines: Sequence[Rewritable]) -> Iterator[tuple[Rewritable, Rewritable]]:
    """An assignment's line with the next assignment's, and with the next line that uses what it assigns."""
    for place, line in enumerate(lines):
        names = _assigned(line[0])
        below = [other for other in lines[place + 1 :] if other[0].lineno - line[0].lineno + 1 in _STOPS]
        assignment = next((other for other in below if _assigned(other[0])), None)
        use = next((other for other in below if _used(other[0]) & names), None)
        for other in (assignment, use):
            if names and other is not None:
                yield line, other


def _assigned(node: ast.stmt) -> set[str]:
    """Names in what a statement assigns to; empty if it assigns nothing."""
    if isinstance(node, ast.Assign):
        return _names(*node.targets)
    return _names(node.target) if isinstance(node, ast.AugAssign | ast.AnnAssign) else set()


def _used(node: ast.stmt) -> set[str]:
    """Names that a statement with a right side reads."""
    value = right_side(node)
    found = _names(value) if value is not None else set()
    return found | _names(node.target) if isinstance(node, ast.AugAssign) else found


def _names(*nodes: ast.expr) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}
