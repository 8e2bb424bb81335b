"""Style ``complete``: the beginning of the parent stays, the model writes the function from there to its end.

It can change several lines that depend on each other, which ``edit_line`` cannot. Sites are the ends of the
function's top-level statements, roughly from a quarter to three quarters of its body.
"""

import ast
from dataclasses import dataclass, replace

from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite, PartStyle

_EARLIEST, _LATEST = 0.25, 0.75
"""Smallest and largest share of the body's statements that is kept."""


@dataclass(frozen=True)
class Complete(PartStyle):
    """Regenerates the rest of the function."""

    name = "complete"

    def places(self, source: Source) -> list[EditSite]:
        """One site after each statement in the middle of the body."""
        body, end = source.function.body, source.end(source.last)
        kept = range(max(1, round(_EARLIEST * len(body))), round(_LATEST * len(body)) + 1)
        sites = [
            site_after(source, body[count - 1])
            for count in kept
            if count < len(body) and source.starts_its_line(body[count])
        ]
        return [
            replace(site, end=end, stop="function", avoid=source.program[site.start : end]) for site in sites
        ]


def site_after(source: Source, statement: ast.stmt) -> EditSite:
    """The end of a statement's last line, called by the statement's beginning."""
    end = source.end((statement.end_lineno or statement.lineno) - 1)
    first = source.lines[statement.lineno - 1].strip()
    assigns = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    label = first[: first.find("=") + 1] if assigns and "=" in first else first
    return EditSite(f"after {label}", end, end)
