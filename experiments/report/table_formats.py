"""Tables as files: CSV for programs, Markdown for pages, LaTeX (booktabs) for papers."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from experiments.report.tables import Table
from experiments.spreadsheets import harmless

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "–": "--",
    "β": r"$\beta$",
    "−": "$-$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def write_tables(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write every table in every format; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for table in tables:
        for ending, write in ((".csv", as_csv), (".md", as_markdown), (".tex", as_latex)):
            path = folder / f"{table.name}{ending}"
            path.write_text(write(table), encoding="utf-8")
            paths.append(path)
    return paths


def as_csv(table: Table) -> str:
    """Comma-separated, with a header row."""
    text = io.StringIO()
    rows = ([harmless(cell) for cell in row] for row in (table.columns, *table.rows))
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def as_markdown(table: Table) -> str:
    """A pipe table, its caption in bold above, its note below."""
    rules = [":--", *["--:"] * (len(table.columns) - 1)]
    rows = [table.columns, rules, *table.rows]
    lines = ["| " + " | ".join(_markdown(cell) for cell in row) + " |" for row in rows]
    note = ["", table.note] if table.note else []
    return "\n".join([f"**{table.title}**", "", *lines, *note]) + "\n"


def as_latex(table: Table) -> str:
    """A booktabs table environment."""
    rows = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in table.rows]
    note = [rf"\par\smallskip\footnotesize {_latex(table.note)}"] if table.note else []
    return "\n".join([
        r"\begin{table}[t]", r"\centering", rf"\caption{{{_latex(table.title)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule",
        " & ".join(_latex(head) for head in table.columns) + r" \\", r"\midrule", *rows, r"\bottomrule",
        r"\end{tabular}", *note, r"\end{table}", "",
    ])  # fmt: skip


def _markdown(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _latex(cell: str) -> str:
    return "".join(_LATEX.get(character, character) for character in cell)
