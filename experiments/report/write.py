"""From run folders to the report's files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.report.comparison import group_runs
from experiments.report.data import RunData, intelligible, read_run
from experiments.report.page import render_page
from experiments.report.payload import build_payload
from experiments.report.pictures import draw_pictures
from experiments.report.table_formats import write_tables
from experiments.report.tables import all_tables


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
        page = render_page(build_payload(groups, tables, drawn, folds={}), page_title(runs))
    output.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and moved: a reader (or a tracker's upload) never sees half a page.
    aside = output.with_suffix(".tmp")
    aside.write_text(page, encoding="utf-8")
    aside.replace(output)
    paths = [output, *write_tables(tables, output.parent / "tables")]
    if figures:
        # matplotlib's pyplot takes a second to import; most reports need none of it.
        from experiments.report.figures import write_figures

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
