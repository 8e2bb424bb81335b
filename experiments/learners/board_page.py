"""The leaderboard's page and figures, from its tables alone: every number and every judging word is computed."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.experiments.learners.board import (
    best_at,
    gains,
    interquartile_mean,
    paired_difference,
    profile,
)
from atlas_gym.experiments.learners.entries import ENTRIES, SEARCH, START
from atlas_gym.experiments.learners.peer import LLAMA_CPP, SERVER
from atlas_gym.experiments.report.style import TEXT_WIDTH, plot_style
from atlas_gym.experiments.report.table_formats import pipe_table

BOLD_FROM = 5
"""Seeds from which a difference is printed in bold."""
_POINTS = 200

Tables = dict[str, pd.DataFrame]


def write_page(tables: Tables, folder: Path) -> None:
    """Write `README.md` and its figures into a folder; what is over runs only where there are several."""
    draw_curves(tables, folder / "curves.png")
    if compared := _compared(tables):
        draw_profiles(tables, compared, folder / "profiles.png")
    (folder / "README.md").write_text(page(tables), encoding="utf-8")


def page(tables: Tables) -> str:
    """The page in Markdown."""
    rows = tables["rows"]
    compared = _compared(tables)
    head = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    parts = [head.format(**_facts(tables)), _standing(tables)]
    if compared:
        parts.append(_verdicts(tables, compared))
    for task in rows.task.unique():
        parts += [f"## {task}\n", _board(tables, task)]
    parts.append(_CURVES)
    if compared:
        parts += ["## Over all tasks\n", _aggregate(tables, compared), _PROFILES]
    parts += ["## What was lost\n", _losses(rows)]
    parts += ["## Versions and settings\n", _versions(rows), _settings(tables["settings"])]
    return "\n".join(parts)


_CURVES = """![Best score on the training task over candidates, tokens (where any were written) and seconds](curves.png)
"""
_PROFILES = """
![Share of runs above a gain](profiles.png)
"""


def _facts(tables: Tables) -> dict[str, object]:
    rows = tables["rows"]
    budget = rows.budget.drop_duplicates().item()  # every row has the same
    seeds = rows.groupby(["task", "learner"]).seed.nunique()
    counted = f"{seeds.max()} seed{'s' if seeds.max() > 1 else ''}"
    return {
        "budget": budget,
        "seeds": counted if seeds.min() == seeds.max() else f"{seeds.min()} to {counted}",
        "held_out": tables["scores"].held_out.nunique(),
        "command": _command(tables, budget),
        "search": SEARCH,
        "bold": BOLD_FROM,
    }


def _command(tables: Tables, budget: str) -> str:
    """What does these rows, and no others where every learner has been on every task with every seed."""
    rows = tables["rows"]
    limits = [part.split(" ") for part in budget.split(" or ")]
    words = [f"--{'budget' if unit == 'candidates' else unit} {amount}" for amount, unit in limits]
    words += [f"--seeds {rows.seed.max() + 1}", f"--held-out {tables['scores'].held_out.nunique()}"]
    words += [f"--tasks {shlex.join(rows.task.unique())}", f"--learners {shlex.join(_order(rows.learner))}"]
    settings = tables["settings"]
    if not settings[(settings.setting == SERVER) & (settings.value != LLAMA_CPP)].empty:
        words.append("--model-url http://127.0.0.1:8000/v1")
    return " \\\n    ".join(["atlas leaderboard", *words])


def _seeds(tables: Tables) -> pd.Series:
    """The fewest of each learner on any of the tasks; without the start, which does not search."""
    rows = tables["rows"]
    counts = rows[rows.learner != START].groupby(["learner", "task"]).seed.nunique()
    return counts.unstack(fill_value=0).reindex(columns=rows.task.unique(), fill_value=0).min(axis=1)


def _compared(tables: Tables) -> list[str]:
    """Learners with several seeds of every task: of the others nothing is said over all tasks."""
    seeds = _seeds(tables)
    return _order(seeds[seeds > 1].index)


def _standing(tables: Tables) -> str:
    """What the rows are good for where there are few seeds."""
    if _seeds(tables).min() >= BOLD_FROM:
        return ""
    return (
        f"**Few seeds.** Telling learners apart takes {BOLD_FROM} seeds or more of each; what follows is of the "
        "seeds at hand, and its intervals are wide.\n"
    )


def _order(names: Sequence[str]) -> list[str]:
    return sorted(set(names), key=list(ENTRIES).index)


def _verdicts(tables: Tables, compared: Sequence[str]) -> str:
    """Which learners the data tells from search, and which it does not."""
    values = gains(tables["scores"], START)
    if SEARCH not in values.index.get_level_values("learner"):
        return ""
    words = ("Better than", "Worse than", "Not told apart from")
    said: dict[str, list[str]] = {word: [] for word in words}
    for name in compared:
        if name != SEARCH and (paired := paired_difference(values, name, SEARCH)):
            said[paired[0].in_words(*words)].append(name)
    return "".join(
        f"- {what} `{SEARCH}` over all tasks: {', '.join(names) or 'none'}.\n" for what, names in said.items()
    )


def _board(tables: Tables, task: str) -> str:
    rows = tables["rows"][tables["rows"].task == task]
    values = gains(tables["scores"], START).loc[[task]]
    scores = tables["scores"][tables["scores"].task == task].groupby("learner").value.mean()
    own = {name: rows[rows.learner == name] for name in _order(rows.learner)}
    return pipe_table([
        {
            "learner": name, "seeds": str(len(mine)),
            **{head: f"{mine[key].mean():,.0f}" for key, head in _SUMS.items()},
            "held-out score": f"{scores[name]:.4f}",
            "gain": f"{100 * values.xs(name, level='learner').mean():.1f} %",
            f"gain against `{SEARCH}`": _difference(values, name),
        }
        for name, mine in own.items()
    ])  # fmt: skip


_SUMS = {
    "candidates": "candidates", "evaluated": "evaluated", "tokens": "tokens", "seconds": "seconds",
    "cpu_seconds": "CPU seconds",
}  # fmt: skip


def _difference(values: pd.Series, name: str) -> str:
    paired = paired_difference(values, name, SEARCH)
    if name == SEARCH or paired is None:
        return ""
    found, count = paired
    if count < 2:
        return f"{100 * found.mean:+.1f} %"
    said = f"{100 * found.mean:+.1f} % ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    told = found.low > 0 or found.high < 0
    return f"**{said}**" if told and count >= BOLD_FROM else said


def _aggregate(tables: Tables, compared: Sequence[str]) -> str:
    values = gains(tables["scores"], START)
    lines = []
    for name in compared:
        middle, low, high = interquartile_mean(values, name)
        lines.append({
            "learner": name, "interquartile mean of the gains": f"{100 * middle:.1f} %",
            "95 % interval, bootstrap within tasks": f"{100 * low:.1f} to {100 * high:.1f} %",
        })  # fmt: skip
    return pipe_table(lines)


def _losses(rows: pd.DataFrame) -> str:
    """Candidates of which no program came, and programs that were refused a score."""
    lines = []
    for name in _order(rows.learner):
        mine = rows[rows.learner == name]
        asked, evaluated, refused = mine[["candidates", "evaluated", "refused"]].sum()
        said: Counter[str] = Counter()
        for ending in filter(None, ", ".join(mine.statuses).split(", ")):
            status, count = ending.split(" ")
            said[status] += int(count)
        lines.append({
            "learner": name, "candidates": f"{asked}", "not evaluated": f"{asked - evaluated}",
            "refused a score": f"{refused}",
            "how evaluations ended": ", ".join(f"{status} {count}" for status, count in sorted(said.items())),
        })  # fmt: skip
    return pipe_table(lines) + _LOSSES


_LOSSES = """
Not evaluated: no program came of the candidate, or one that had been evaluated before. Refused a score: the program
failed.
"""


def _versions(rows: pd.DataFrame) -> str:
    first = rows.drop_duplicates("learner").set_index("learner").loc[_order(rows.learner)]
    found = first[["version", "what"]].rename(columns={"what": "what it does"}).reset_index()
    return pipe_table(found.to_dict("records"))


def _settings(settings: pd.DataFrame) -> str:
    """A line per change, with all learners that share it."""
    order = _order(settings.learner)
    changes = settings.sort_values("learner", key=lambda names: names.map(order.index), kind="stable")
    same = changes.groupby(["setting", "value", "default", "why"], sort=False).learner.agg(", ".join)
    lines = [
        {"learners": learners, "setting": f"`{setting}`", "here": f"`{value}`",
         "its project's default": f"`{default}`", "why": why}
        for (setting, value, default, why), learners in same.items()
    ]  # fmt: skip
    return "\n" + pipe_table(lines)


def draw_curves(tables: Tables, path: Path) -> None:
    """Mean over seeds of the best training score, a row of plots per task, a column per kind of work that was done."""
    curves = tables["curves"]
    kinds = [kind for kind in ("candidates", "tokens", "seconds") if curves[kind].max() > 0]
    tasks = list(curves.task.unique())
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 2.2 * len(tasks)))
        axes = figure.subplots(len(tasks), len(kinds), squeeze=False)
        for (i, j), ax in np.ndenumerate(axes):
            for name in _order(curves.learner):
                _draw_curve(ax, curves[(curves.task == tasks[i]) & (curves.learner == name)], kinds[j], name)
            ax.set(xlabel=kinds[j], ylabel=tasks[i].removeprefix("ATLAS-") if j == 0 else "")
        handles = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5)
        figure.savefig(path, metadata={"Software": None})


def _draw_curve(ax: Axes, curves: pd.DataFrame, by: str, name: str) -> None:
    """One learner on one task; nothing for one that did none of this work."""
    if curves.empty or curves[by].max() == 0:
        return
    levels = np.linspace(0, curves[by].max(), _POINTS)
    runs = [best_at(curve, by, levels) for _, curve in curves.groupby("seed")]
    ax.step(levels, np.mean(runs, axis=0), where="post", label=name, **_look(name))


def _look(name: str) -> dict[str, Any]:
    """Colour and line of a learner, the same in every figure."""
    line, colour = divmod(list(ENTRIES).index(name), 8)
    return {"color": f"C{colour}", "linestyle": ("-", "--", ":")[line]}


def draw_profiles(tables: Tables, compared: Sequence[str], path: Path) -> None:
    """Performance profiles."""
    values = gains(tables["scores"], START)
    levels = np.linspace(min(0.0, values.quantile(0.1)), values.max(), _POINTS)
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 2.6))
        ax = figure.subplots()
        for name in compared:
            ax.step(100 * levels, profile(values, name, levels), where="post", label=name, **_look(name))
        ax.set(xlabel="gain, %", ylabel="share of runs above it")
        figure.legend(loc="outside right center")
        figure.savefig(path, metadata={"Software": None})
