"""Style ``complete``: the beginning of the parent stays, the model writes the function from there to its end.

It can change several lines that depend on each other, which ``edit_line`` cannot. Sites are the ends of the
function's top-level statements, roughly from a quarter to three quarters of its body.
"""

import ast
from dataclasses import dataclass

from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals.source import Source
from agents.proposals.style import EditSite, PartStyle, Showing, versions

_EARLIEST, _LATEST = 0.25, 0.75
"""Smallest and largest share of the body's statements that is kept."""


@dataclass(frozen=True)
class Complete(PartStyle):
    """Regenerates the rest of the function."""

    name = "complete"

    def places(self, source: Source) -> list[EditSite]:
        """One site after each statement in the middle of the body."""
        body = source.function.body
        ends = range(max(1, round(_EARLIEST * len(body))), round(_LATEST * len(body)) + 1)
        return [
            site_after(source, body[end - 1])
            for end in ends
            if end < len(body) and are_apart(*body[end - 1 : end + 1])
        ]

    def propose(self, parent: CandidateRecord, site: EditSite, showing: Showing) -> Proposal:
        """Prompt: the versions so far, then the kept part of ``f_v2``."""
        source = Source.of(parent.program, self.function)
        kept, rest = source.lines[: site.line + 1], source.lines[site.line + 1 : source.last + 1]
        return self.asked(
            parent,
            site,
            prompt=versions(source, showing) + source.function_text(f"{self.function}_v2", site.line + 1),
            avoid="\n" + "\n".join(rest),
            stop="function",
            head="\n".join(kept),
            tail=source.behind(source.last),
        )


def site_after(source: Source, statement: ast.stmt) -> EditSite:
    """The end of a statement's last line, called by the statement's beginning."""
    line = (statement.end_lineno or statement.lineno) - 1
    first = source.lines[statement.lineno - 1].strip()
    assigns = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    label = first[: first.find("=") + 1] if assigns and "=" in first else first
    return EditSite(f"after {label}", line, len(source.lines[line]))


def are_apart(statement: ast.stmt, following: ast.stmt) -> bool:
    """Whether two neighbouring statements stand on lines of their own."""
    return (statement.end_lineno or statement.lineno) < following.lineno
