"""Tables of text, and tables as files: CSV for programs, Markdown for pages."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

_FORMULA = re.compile(r"[=@+\-\t\r]")
_FIGURES = re.compile(r"[+-]?[\d.][\d\s.,e±%()\[\]+–-]*|[+-]?(nan|inf)")


@dataclass(frozen=True)
class Table:
    """A table of text."""

    name: str
    """File name without its ending."""
    title: str
    """Caption."""
    columns: tuple[str, ...]
    """Column heads; the first column is text, the others are figures."""
    rows: tuple[tuple[str, ...], ...]
    """Cells, one tuple a row."""
    note: str = ""
    """How to read it."""


def table(name: str, title: str, rows: Iterable[Mapping[str, str]], note: str = "") -> Table:
    """A table of rows that all have the same columns, by their heads."""
    found = list(rows)
    columns = tuple(found[0]) if found else ()
    return Table(name, title, columns, tuple(tuple(row.values()) for row in found), note)


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


def as_markdown(table: Table) -> str:
    """A pipe table, its caption in bold above, its note below."""
    rules = [":--", *["--:"] * (len(table.columns) - 1)]
    rows = [table.columns, rules, *table.rows]
    lines = ["| " + " | ".join(_markdown(cell) for cell in row) + " |" for row in rows]
    note = ["", table.note] if table.note else []
    return "\n".join([f"**{table.title}**", "", *lines, *note]) + "\n"


def _markdown(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
