"""The report as files: one HTML page made of the template, the style sheet, the scripts and the data; tables; figures.

The data block is JSON in a script element of a type no browser executes. HTML ends such a block at the first
`</script`, whatever the JSON means, so every character that could begin markup is written as a JSON
escape. The policy names the one script and the one style sheet by their hashes: whatever else got onto
the page could neither run nor fetch anything.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from atlas_gym.experiments.report.comparison import group_runs
from atlas_gym.experiments.report.data import RunData, intelligible, read_run
from atlas_gym.experiments.report.figures import write_figures
from atlas_gym.experiments.report.payload import build_payload
from atlas_gym.experiments.report.pictures import draw_pictures
from atlas_gym.experiments.report.table_formats import write_tables
from atlas_gym.experiments.report.tables import all_tables


def write_report(
    folders: Sequence[Path], output: Path, pictures: bool = True, figures: bool = False
) -> list[Path]:
    """Write the page, the tables beside it and, if wanted, the figures; returns the paths, the page first.

    Args:
        folders: one run folder or several.
        output: the page's path; `tables/` and `figures/` go beside it.
        pictures: whether to evaluate the first and the best programs again for the environment's picture.
        figures: whether to write PDF and PNG figures.

    Raises:
        StoreError: a folder holds no run, or a damaged one.
    """
    runs = read_runs(folders)
    with intelligible(f"What {' and '.join(map(str, folders))} holds cannot be shown"):
        groups = group_runs(runs)
        tables = all_tables(groups)
        drawn = {run.name: draw_pictures(run) for run in runs} if pictures else {}
        page = render_page(build_payload(groups, tables, drawn), page_title(runs))
    output.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and moved: a reader (or a tracker's upload) never sees half a page.
    aside = output.with_suffix(".tmp")
    try:
        aside.write_text(page, encoding="utf-8")
        aside.replace(output)
    except OSError as error:  # a full disk does not say where it is
        aside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(output)) from error
    paths = [output, *write_tables(tables, output.parent / "tables")]
    if figures:
        paths += write_figures(groups, output.parent / "figures")
    return paths


def read_runs(folders: Sequence[Path]) -> list[RunData]:
    """The runs, under names that tell them apart: the folder's own, with its parent's where two are equal."""
    runs = [read_run(folder) for folder in folders]
    names = [run.name for run in runs]
    paths = [Path(folder).resolve() for folder in folders]
    return [
        run if names.count(run.name) == 1 else replace(run, name=f"{path.parent.name}/{run.name}")
        for run, path in zip(runs, paths, strict=True)
    ]


def page_title(runs: Sequence[RunData]) -> str:
    """The browser tab's title."""
    return f"{runs[0].name} · ATLAS Gym" if len(runs) == 1 else f"{len(runs)} runs · ATLAS Gym"


def default_output(folders: Sequence[Path]) -> Path:
    """One run's report lies in its folder; that of several in `report/` beside the first."""
    first = Path(folders[0]).resolve()
    return first / "report.html" if len(folders) == 1 else first.parent / "report" / "report.html"


SCRIPTS = (
    "dom", "model", "chart", "tooltip", "diff", "overview", "scores", "lineage", "candidate", "gate", "supporters",
    "islands", "comparison", "tables", "main",
)  # fmt: skip
"""The page's scripts in the order in which they run."""

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(payload: dict[str, Any], title: str, follow: bool = False) -> str:
    """The whole page as text.

    Args:
        payload: what `payload.build_payload` made.
        title: the page's title.
        follow: whether the page asks the server that it came from for news; a file on disk never asks
            anybody.
    """
    script = "\n".join(_asset(f"{name}.js") for name in (*SCRIPTS, *(["follow"] if follow else [])))
    style = _asset("report.css")
    parts = {
        "policy": _policy(script, style, follow),
        "title": html.escape(title),
        "style": style,
        "data": embed(payload),
        "script": script,
    }
    # One pass over the template: what is put in is never looked at again, whatever it contains.
    pieces = re.split(r"\{\{(\w+)\}\}", _asset("page.html"))
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)


def embed(payload: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in: only ASCII, and no `<`, `>` or `&`."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _policy(script: str, style: str, follow: bool) -> str:
    rules = [
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "connect-src 'self'" if follow else "connect-src 'none'",
    ]
    return "; ".join(rules)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
