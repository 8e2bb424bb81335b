"""Tables as text: CSV for programs, Markdown for pages."""

import re
from pathlib import Path

import pandas as pd

_FORMULA = re.compile(r"[=@+\-\t\r]")
_FIGURES = re.compile(r"[+-]?[\d.][\d\s.,e±%()\[\]+–-]*|[+-]?(nan|inf)")


def harmless(cell: object) -> object:
    """The cell, with an apostrophe before a text that a spreadsheet would run as a formula; figures, signs included,
    stay."""
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _FIGURES.fullmatch(cell):
        return cell
    return f"'{cell}"


def write_csv(frame: pd.DataFrame, path: Path, index: bool = False) -> Path:
    """A frame as CSV that is safe to open in a spreadsheet; numbers to seven digits."""
    frame.map(harmless).to_csv(path, index=index, float_format="%.7g", lineterminator="\n")
    return path


def as_markdown(frame: pd.DataFrame, title: str, note: str) -> str:
    """A pipe table of cells that are text, its caption in bold above, its note below."""

    def cell(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")

    rules = [":--", *["--:"] * (len(frame.columns) - 1)]
    rows = [list(frame.columns), rules, *frame.itertuples(index=False)]
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join([f"**{title}**", "", *lines, "", note]) + "\n"
