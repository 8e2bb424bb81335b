"""Style ``insert_line``: the model writes one new line between two lines of the parent, everything else stays.

What is to enter a formula can be computed on a line of its own (``y = 0.9 * y``), without a word of the formula
being written again. A model of small size goes on as the parent does: so a new line may not begin with the word that
the parent's next line begins with, and one that repeats a neighbour makes the parent again.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from atlas_gym.agents.proposals.complete import site_after
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite, PartStyle

_FOLLOWED = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Assert, ast.Delete, ast.Import, ast.ImportFrom,
    ast.Global, ast.Nonlocal,
)  # fmt: skip
"""Simple statements after which the next one is run."""


@dataclass(frozen=True)
class InsertLine(PartStyle):
    """Writes a line of its own."""

    name = "insert_line"
    changes = "adds one line to"

    def places(self, source: Source) -> list[EditSite]:
        """One site after each simple statement of the function's body and of its loops."""
        return sorted(_places(source), key=lambda site: site.start)


def _places(source: Source) -> Iterator[EditSite]:
    for body in _bodies(source):
        indentation = source.left(body[0])
        for place, statement in enumerate(body):
            site = site_after(source, statement)
            alone = all(map(source.starts_its_line, body[place + 1 : place + 2]))
            if isinstance(statement, _FOLLOWED) and alone and source.program[site.start - 1] != "\\":
                # Tokens of code begin with a space, so the last one of the indentation is left to the completion.
                begun = indentation[:-1] or indentation
                word = _next_word(source.program[site.end :].split("\n"), indentation)
                avoid = word and indentation[len(begun) :] + word
                yield replace(site, stop="new line", avoid=avoid, begun=f"\n{begun}")


def _bodies(source: Source) -> Iterator[list[ast.stmt]]:
    """The statements of the function and of its loops, where they stand on lines of their own."""
    pending: list[ast.FunctionDef | ast.For | ast.While] = [source.function]
    while pending:
        body = pending.pop().body
        if source.starts_its_line(body[0]):
            yield body
        pending += [statement for statement in body if isinstance(statement, ast.For | ast.While)]


def _next_word(lines: list[str], indentation: str) -> str | None:
    """The word that the next line of the same block begins with."""
    written = (line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    following = next(written, "")
    word = re.match(r"\w+", following.removeprefix(indentation))
    return word.group() if word and following.startswith(indentation) else None
