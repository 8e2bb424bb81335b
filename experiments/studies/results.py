"""Results of a study's runs: `runs.csv`, `instances.csv`, paired differences with their intervals, one picture."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from atlas_gym.experiments.loggers.metrics import improvement
from atlas_gym.experiments.report.data import intelligible, read_run
from atlas_gym.experiments.report.style import COLORS, TEXT_WIDTH, no_formula, plot_style
from atlas_gym.experiments.report.tables import instance_scores, run_row
from atlas_gym.experiments.studies.plan import Plan, run_name
from atlas_gym.experiments.studies.scheduler import has_ended
from atlas_gym.intervals import half_width, mean_interval

KEY = ["task", "arm", "seed"]
KINDS = ("runs", "instances", "controls")
"""A CSV file each."""
_AS_WRITTEN: Any = {"dtype": {"task": str, "arm": str}, "keep_default_na": False, "na_values": [""]}
"""An arm may be called 64, or None."""
_FORMULA = re.compile(r"[=@+\-\t\r]")
_FIGURES = re.compile(r"[+-]?[\d.][\d\s.,e±%()\[\]+–-]*|[+-]?(nan|inf)")

Data = dict[str, pd.DataFrame]


def collect(plan: Plan, folder: Path) -> Data:
    """Results of the finished runs: a row a run, and a row an instance where there are several. `SettingsError` if one
    was done with other settings than the plan's."""
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for planned in plan.runs():
        if not has_ended(folder / planned.name, planned):
            continue
        key = {name: getattr(planned, name) for name in KEY}
        run = read_run(folder / planned.name)
        rows["runs"].append({**key, **run_row(run)})
        ends = instance_scores(run)
        for number, (initial, best) in enumerate(ends if len(ends) > 1 else ()):
            own = {"instance": number, "initial_held_out": initial, "best_held_out": best}
            rows["instances"].append({**key, **own, "improvement": improvement(initial, best)})
        for name, one, other in run.compared:
            ahead = mean_interval((one.found - other.found).dropna())
            means = {"control": name, "run": one.found.mean(), "beside": other.found.mean()}
            spread = {"ahead": ahead.mean, "half_width": ahead.half_width, "instances": len(one.found)}
            rows["controls"].append({**key, **means, **spread})
    return {kind: pd.DataFrame(found) for kind, found in rows.items() if found}


def read_data(folder: Path) -> Data:
    """A study's data as they were written; empty if there are none. `StoreError` if a file is damaged."""
    found = {kind: folder / f"{kind}.csv" for kind in KINDS if (folder / f"{kind}.csv").exists()}
    with intelligible(f"The data in {folder} are damaged: put them back, or delete all its .csv files"):
        data = {kind: pd.read_csv(path, **_AS_WRITTEN) for kind, path in found.items()}
        for rows in data.values():
            rows[KEY]  # without these columns nobody knows whose they are
    return data


def known_runs(data: Data) -> set[str]:
    """The names of the runs that the data have."""
    return {run_name(*key) for key in data["runs"][KEY].itertuples(index=False)} if data else set()


def add(old: Data, new: Data) -> Data:
    """The rows of both; of a run that both have, the new ones, in the place of the old."""
    if "runs" not in new:
        return old
    ended = pd.MultiIndex.from_frame(new["runs"][KEY])
    kept = {kind: rows[~pd.MultiIndex.from_frame(rows[KEY]).isin(ended)] for kind, rows in old.items()}
    both = {kind: [data[kind] for data in (kept, new) if kind in data] for kind in KINDS}
    runs = [pd.MultiIndex.from_frame(data["runs"][KEY]) for data in (old, new) if data]
    order = {run: place for place, run in enumerate(dict.fromkeys(run for own in runs for run in own))}

    def placed(rows: pd.DataFrame) -> pd.DataFrame:
        places = [order[run] for run in rows[KEY].itertuples(index=False, name=None)]
        return rows.iloc[np.argsort(places, kind="stable")]

    return {kind: placed(pd.concat(frames)) for kind, frames in both.items() if frames}


def write_data(data: Data, folder: Path) -> list[Path]:
    """Write the CSV files; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    # Aside, then moved: a full disk leaves the data that were there, which may be all that is left of their runs.
    aside = [write_csv(rows, folder / f"{kind}.tmp") for kind, rows in data.items()]
    return [path.replace(path.with_suffix(".csv")) for path in aside]


def by_task(runs: pd.DataFrame, measure: str) -> dict[str, pd.DataFrame]:
    """By task, a column of `runs.csv` as a table of seeds × arms; improvement in per cent. `ValueError` if no run has
    it."""
    if measure not in runs.select_dtypes("number"):
        raise ValueError(f"no measure {measure!r}; there are {', '.join(runs.select_dtypes('number'))}")
    runs = runs[runs[measure].notna()]
    found = {}
    for task, own in runs.groupby("task", sort=False):
        values = own.pivot(index="seed", columns="arm", values=measure)[own.arm.unique()]
        found[str(task)] = 100 * values if measure == "improvement" else values
    if not found:
        raise ValueError(f"no run has a value of {measure!r}")
    return found


def summaries(
    values: Mapping[str, pd.DataFrame], against: str = "", form: str = ".1f", controls: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The arms of `by_task` with their differences to one of them (`against`, or the first), paired by seed: by task,
    and over all tasks if there are several, which are fixed: seeds are what is replicated. And the first arm beside
    those `controls` that are the better ones on each task. `form`: of a number. `ValueError` if there is no such arm.
    """
    arms = list(dict.fromkeys(arm for of in values.values() for arm in of))
    against = against or arms[0]
    for name in (against, *controls):
        if name not in arms:
            raise ValueError(f"no arm {name!r}; there are {', '.join(arms)}")
    rows: list[dict[str, str]] = []
    differences: dict[str, list[pd.Series]] = {arm: [] for arm in arms if arm != against}
    for (task, of), arm in product(values.items(), arms):
        if arm not in of:
            continue
        difference = (of[arm] - of[against]).dropna() if arm != against and against in of else of[arm][:0]
        if len(difference):
            differences[arm].append(difference)
        own = of[arm].dropna()
        told = {"Task": task, "Arm": arm, "Seeds": str(len(own)), "Mean": _told(own, form)}
        rows.append(told | _compared(difference, against, form))
    over = [  # by seed the mean over all tasks, of the seeds that have all
        {"Arm": arm, **_compared(pd.concat(own, axis=1).dropna().mean(axis=1), against, form)}
        for arm, own in differences.items()
        if len(values) > 1 and len(own) == len(values)
    ]
    beaten = []
    for task, of in values.items():
        done = [name for name in controls if name in of]
        if not done or arms[0] not in of:
            continue
        better = str(of[done].mean().idxmax())
        compared = _compared((of[arms[0]] - of[better]).dropna(), "it", form)
        beaten.append({"Task": task, "Better control": better, **compared})
    return pd.DataFrame(rows), pd.DataFrame(over), pd.DataFrame(beaten)


def _compared(differences: Sequence[float], against: str, form: str) -> dict[str, str]:
    words = "–"
    if len(differences) > 1:
        words = mean_interval(differences).in_words("higher", "lower", "not told apart")
    return {f"Less {against}": _told(differences, f"+{form}"), "In words": words}


def control_table(rows: pd.DataFrame) -> pd.DataFrame:
    """How often the runs are told from each of their controls, and by how much they lie ahead over all runs."""
    return pd.DataFrame(
        {
            "Control": str(name), "Runs": str(len(own)), "Ahead": str((own.ahead > own.half_width).sum()),
            "Behind": str((own.ahead < -own.half_width).sum()), "Difference": _told(own.ahead, "+.4f"),
        }
        for name, own in rows.groupby("control", sort=False)
    )  # fmt: skip


def _told(values: Sequence[float], form: str) -> str:
    if len(values) < 2:
        return format(np.mean(values), form) if len(values) else "–"
    return f"{mean_interval(values):{form}}"


def draw(values: Mapping[str, pd.DataFrame], label: str, path: Path) -> Path:
    """Every run by arm, a panel a task; bars are means with their 95 % interval over seeds."""
    arms = list(dict.fromkeys(arm for of in values.values() for arm in of))
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 0.8 + 0.2 * len(arms)))
        panels = figure.subplots(1, len(values), sharey=True, squeeze=False)[0]
        for panel, (task, of) in zip(panels, values.items(), strict=True):
            for row, arm in enumerate(arms):
                own = of[arm].dropna().to_numpy() if arm in of else []
                color = COLORS[row % len(COLORS)]
                panel.plot(own, np.full(len(own), row), ".", color=color, alpha=0.5)
                if len(own) > 1:
                    panel.errorbar(np.mean(own), row, xerr=half_width(own), fmt="|", color=color, capsize=3)
            panel.set(title=no_formula(task), yticks=range(len(arms)), yticklabels=[*map(no_formula, arms)])
        figure.supxlabel(label, size="medium")
        panel.invert_yaxis()
        figure.savefig(path, metadata={"Software": None})
    return path


def write_csv(frame: pd.DataFrame, path: Path) -> Path:
    """As CSV, numbers to seven digits; an apostrophe precedes a text that a spreadsheet would run as a formula."""

    def harmless(cell: object) -> object:
        is_formula = isinstance(cell, str) and _FORMULA.match(cell) and not _FIGURES.fullmatch(cell)
        return f"'{cell}" if is_formula else cell

    frame.map(harmless).to_csv(path, index=False, float_format="%.7g", lineterminator="\n")
    return path


def as_markdown(frame: pd.DataFrame, title: str, note: str) -> str:
    """A pipe table of cells that are text, its caption in bold above, its note below."""

    def cell(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")

    rules = [":--", *["--:"] * (len(frame.columns) - 1)]
    rows = [list(frame.columns), rules, *frame.itertuples(index=False)]
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join([f"**{title}**", "", *lines, "", note]) + "\n"
