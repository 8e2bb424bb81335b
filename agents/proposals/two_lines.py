"""Style ``two_lines``: the model writes an assignment's right side, a line below that hangs on it, and what is between.

Two arrays that are cut to one length, or a variable and the formula that uses it, have to change together: changed by
itself, neither line runs. A site joins an assignment to the next one, or to the next line that uses what it assigns.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.engines.engine import Stop
from agents.proposals.edit_line import rewritable, right_side
from agents.proposals.source import Source
from agents.proposals.style import EditSite, PartStyle

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
        for first, second in _pairs(rewritable(source, self.numbers)):
            written = "\n".join(source.code(line) for line in range(first.line, second.line + 1))
            stop, label = _STOPS[second.line - first.line + 1], f"{first.label} & {second.label}"
            site = EditSite(label, first.line, first.column, second.end, stop, written[first.column :])
            found.setdefault((label, first.line), site)
        return list(found.values())


def _pairs(lines: Sequence[tuple[ast.stmt, EditSite]]) -> Iterator[tuple[EditSite, EditSite]]:
    """An assignment's line with the next assignment's, and with the next line that uses what it assigns."""
    for place, (first, site) in enumerate(lines):
        names = _assigned(first)
        below = [pair for pair in lines[place + 1 :] if pair[1].line - site.line + 1 in _STOPS]
        assignment = next((other for node, other in below if _assigned(node)), None)
        use = next((other for node, other in below if _used(node) & names), None)
        for other in (assignment, use):
            if names and other is not None:
                yield site, other


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
