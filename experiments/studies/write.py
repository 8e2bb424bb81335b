"""A study's data, tables and figure as files."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.experiments.report import tables as paper
from atlas_gym.experiments.report.data import intelligible
from atlas_gym.experiments.report.style import COLORS, TEXT_WIDTH, plot_style, save
from atlas_gym.experiments.report.table_formats import Table, as_markdown, write_csv, write_tables
from atlas_gym.experiments.studies import tables
from atlas_gym.experiments.studies.plan import Plan, run_name
from atlas_gym.experiments.studies.rows import KINDS, collect
from atlas_gym.intervals import standard_error

CONCLUSIONS = "conclusions.md"
"""Beside the page, written by a person when the data were there: linked, never written here."""


def write_study(plan: Plan, folder: Path, output: Path, add: bool = False, given: str = "") -> list[Path]:
    """Write what the finished runs have come to; without any, make page and tables of the data that are there.

    Args:
        plan: the study.
        folder: where the runs' folders lie.
        output: where the files go: `*.csv` (data), `tables/` (CSV, Markdown), `progress.png`, `README.md`.
        add: whether the data of other runs that are there already stay.
        given: what `atlas study` takes for the plan; default: the name of a plan that comes with the package.

    Returns:
        The paths; none if there are neither finished runs nor data.
    """
    data, paths = collect(plan, folder), []
    if data and add:
        data = _added(read_data(output), data)
    if data:
        output.mkdir(parents=True, exist_ok=True)
        # Aside, then moved: a full disk leaves the data that were there, which may be all that is left of their runs.
        aside = [write_csv(frame, output / f"{name}.tmp") for name, frame in data.items()]
        paths = [path.replace(path.with_suffix(".csv")) for path in aside]
        for name in KINDS.keys() - data.keys():  # of a study that lay here before
            (output / f"{name}.csv").unlink(missing_ok=True)
    data = read_data(output)  # rounded as they were written: the tables are those of the files
    if not data:
        return []
    made = all_tables(data)
    paths += write_tables(made, output / "tables")
    paths += draw_study(data["rounds"], output)
    head = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    told = head.format(
        plan=plan,
        given=given or plan.name,
        count=f"{len(data['runs'])} of {len(plan.runs())} runs finished",
        about=f"{plan.about.strip()}\n\n" if plan.about else "",
        conclusions=f" [What was concluded]({CONCLUSIONS})." if (output / CONCLUSIONS).exists() else "",
    )
    page = output / "README.md"
    page.write_text(told + "\n".join(map(as_markdown, made)), encoding="utf-8")
    return [*paths, page]


def read_data(folder: Path) -> dict[str, pd.DataFrame]:
    """A study's data as they were written, by kind.

    Raises:
        StoreError: a file is empty or damaged.
    """
    found = {name: folder / f"{name}.csv" for name in KINDS if (folder / f"{name}.csv").exists()}
    with intelligible(f"The data in {folder} are damaged: put them back, or delete all its .csv files"):
        data = {name: pd.read_csv(path, **_AS_WRITTEN) for name, path in found.items()}
        for rows in data.values():
            rows[_RUN]  # without these columns nobody knows whose they are
    return data


def known_runs(folder: Path) -> set[str]:
    """The names of the runs whose data are there."""
    runs = read_data(folder).get("runs", pd.DataFrame(columns=_RUN))
    return set(map(run_name, runs.arm, runs.start, runs.seed))


_RUN = ["arm", "start", "seed"]
_AS_WRITTEN: Any = {"dtype": {"arm": str, "start": str}, "keep_default_na": False, "na_values": [""]}
"""An arm may be called 64, or None."""


def _added(old: dict[str, pd.DataFrame], new: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The rows of both, by kind; of a run that both have, the new ones."""
    ended = pd.MultiIndex.from_frame(new["runs"][_RUN])
    kept = {kind: rows[~pd.MultiIndex.from_frame(rows[_RUN]).isin(ended)] for kind, rows in old.items()}
    return {
        kind: pd.concat([f[kind] for f in (kept, new) if kind in f])
        for kind in KINDS
        if kind in kept or kind in new
    }


def all_tables(data: dict[str, pd.DataFrame]) -> list[Table]:
    """Every table that has rows."""
    runs, none = data["runs"], pd.DataFrame()
    made = [
        paper.final_scores(runs),
        tables.comparisons(runs),
        tables.by_instance(data.get("instances", none)),
        tables.speed(data.get("curves", none)),
        paper.ablation(runs),
        paper.interventions(runs),
        # Where there is a strategist or a gate to ask.
        paper.interventions_by_run(runs[(runs.phases > 0) & runs.arm.str.startswith("atlas")]),
        tables.shares(runs, data["rounds"]),
        tables.origins(data.get("origins", none)),
        tables.learning(data.get("measures", none)),
    ]
    return [table for table in made if table.rows]


_PANELS = (
    ("best_training", "best score so far"),
    ("valid_share", "share of valid programs"),
    ("distinct_share", "share of distinct programs"),
)


def draw_study(rounds: pd.DataFrame, folder: Path) -> list[Path]:
    """Figure 2: best score over rounds, and the shares of valid and distinct programs.

    One row of panels a start; lines are means over seeds, bands ± one standard error.
    """
    starts = list(rounds.start.unique())
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 2.1 * len(starts)))
        grid = figure.subplots(len(starts), len(_PANELS), squeeze=False)
        for start, axes in zip(starts, grid, strict=True):
            for (key, label), panel in zip(_PANELS, axes, strict=True):
                _draw(panel, rounds[rounds.start == start], key)
                panel.set(xlabel="round", ylabel=label)
                panel.xaxis.get_major_locator().set_params(integer=True)
            axes[0].set_title(f"start: {start}", loc="left")
        grid[0][0].legend(loc="lower right")
        return save(figure, folder / "progress")


def _draw(panel: Axes, rows: pd.DataFrame, key: str) -> None:
    for color, (arm, own) in zip(COLORS * len(rows), rows.groupby("arm", sort=False), strict=False):
        curves = own.pivot(index="round", columns="seed", values=key)
        if key != "best_training":
            curves = curves[curves.index > 0]
        mean, error = curves.mean(axis=1), standard_error(curves.T)
        panel.plot(curves.index, mean, color=color, label=arm)
        if curves.shape[1] > 1:
            panel.fill_between(curves.index, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
