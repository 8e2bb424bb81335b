"""Style ``two_lines``: the model writes an assignment's right side, a line below that hangs on it, and what is between.

Two arrays that are cut to one length, or a variable and the formula that uses it, have to change together: changed by
itself, neither line runs. A site joins an assignment to the next one, or to the next line that uses what it assigns.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from agents.engines.engine import Stop
from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals.edit_line import rewritable, right_side
from agents.proposals.source import Source
from agents.proposals.style import EditSite, PartStyle, Showing, versions

_STOPS: Mapping[int, Stop] = {2: "2 lines", 3: "3 lines", 4: "4 lines"}
"""Where a completion of so many lines ends; no two lines are further apart."""


@dataclass(frozen=True)
class TwoLines(PartStyle):
    """Rewrites two lines that depend on each other."""

    numbers: bool = True
    """Whether lines that only set a number are among the two; see :class:`agents.proposals.EditLine`."""

    name = "two_lines"

    def places(self, source: Source) -> list[EditSite]:
        """One or two sites per assignment."""
        return list(_ends(source, self.numbers))

    def propose(self, parent: CandidateRecord, site: EditSite, showing: Showing) -> Proposal:
        """Prompt: the versions so far, then ``f_v2`` up to the site."""
        source = Source.of(parent.program, self.function)
        end = _ends(source, self.numbers)[site]
        beginning = source.lines[site.line][: site.column]
        kept = source.function_text(f"{self.function}_v2", site.line)
        written = "\n".join(_without_comment(source, line) for line in range(site.line, end + 1))
        return self.asked(
            parent,
            site,
            prompt=versions(source, showing)
            + f"# {self.function}_v2 changes two lines of {self.function}_v1\n{kept}\n{beginning}",
            avoid=written[site.column :],
            stop=_STOPS[end - site.line + 1],
            head=source.above(site.line) + beginning,
            tail=source.behind(end),
        )


def _ends(source: Source, numbers: bool) -> dict[EditSite, int]:
    """Every site, and the index of its second line."""
    lines = rewritable(source, numbers)
    ends: dict[EditSite, int] = {}
    for place, (first, site) in enumerate(lines):
        names = _assigned(first)
        below = [pair for pair in lines[place + 1 :] if pair[1].line - site.line + 1 in _STOPS]
        assignment = next((other for node, other in below if _assigned(node)), None)
        use = next((other for node, other in below if _used(node) & names), None)
        for other in (assignment, use) if names else ():
            if other is not None:
                label = f"{site.label} & {other.label}"
                ends.setdefault(EditSite(label, site.line, site.column), other.line)
    return ends


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


def _without_comment(source: Source, line: int) -> str:
    column = source.comments.get(line)
    return source.lines[line] if column is None else source.lines[line][:column].rstrip()
