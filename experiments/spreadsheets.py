"""CSV that is safe to open in a spreadsheet, where a text that begins like a formula is one."""

import re

_FORMULA = re.compile(r"[=@+\-\t\r]")
_FIGURES = re.compile(r"[+-]?[\d.][\d\s.,e±%()\[\]+–-]*|[+-]?(nan|inf)")


def harmless(cell: object) -> object:
    """The cell, with an apostrophe before a text that would be run as a formula; figures, signs included, stay."""
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _FIGURES.fullmatch(cell):
        return cell
    return f"'{cell}"
