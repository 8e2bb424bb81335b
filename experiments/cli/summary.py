"""The table at the end of a run, and the files that go with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from atlas_gym.experiments.loggers.metrics import improvement
from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.figures import as_png, draw_learning, draw_scores
from atlas_gym.experiments.report.tables import mean_error
from atlas_gym.experiments.report.words import said


def print_summary(run: RunData, summary: Mapping[str, Any], console: Console) -> None:
    """Scores, what tuning changed, spending and the best program; phases are in the report."""
    console.print(_score_table(summary))
    if words := said(run):
        console.print(f"\n{words}", markup=False, highlight=False)
    for model, spent in summary["spending"].items():
        console.print(
            f"\n{model}: {spent['requests']} requests, {spent['prompt_tokens']} tokens read, "
            f"{spent['completion_tokens']} written" + (f", cost {spent['money']:.4g}" if spent["money"] else ""),
            markup=False,
        )  # fmt: skip
    console.print(f"\nBest program (candidate {summary['best']['id']}, origin: {summary['best']['origin']}):")
    console.print(Syntax(summary["best"]["program"], "python", background_color="default"))


def write_files(run: RunData, summary: Mapping[str, Any]) -> list[Path]:
    """Write the best program and the figure into the run folder; returns their paths."""
    program, scores = run.folder / "best_program.py", run.folder / "best_score.png"
    program.write_text(summary["best"]["program"], encoding="utf-8")
    as_png(draw_scores(run, f"{summary['env']}, {summary['method']}, seed {summary['seed']}"), scores)
    figure = draw_learning(run)
    if figure is None:
        return [program, scores]
    as_png(figure, run.folder / "learning.png")
    return [program, scores, run.folder / "learning.png"]


def _score_table(summary: Mapping[str, Any]) -> Table:
    table = Table(
        "", "training seeds", "held-out seeds",
        title=f"{summary['env']} · {summary['method']} · seed {summary['seed']} · {summary['rounds']} rounds",
    )  # fmt: skip
    if len(summary["instances"]) > 1:
        _add_instances(table, summary["instances"])
    else:
        _add_programs(table, summary)
    table.caption = (
        f"{summary['candidates']} candidates, {summary['evaluated']} different programs evaluated, "
        f"{summary['valid_share']:.0%} valid; {summary['held_out_seeds']} held-out seeds, ± standard error over them; "
        f"origin of the best: {summary['best']['origin']}"
    )
    return table


def _add_programs(table: Table, summary: Mapping[str, Any]) -> None:
    for name in ("initial", "best"):
        row = summary[name]
        table.add_row(f"{name} program", f"{row['score']:.4f}", mean_error(row["held_out_scores"]))
    table.add_row(
        "improvement",
        f"{improvement(summary['initial']['score'], summary['best']['score']):.1%}",
        f"{improvement(summary['initial']['held_out'], summary['best']['held_out']):.1%}",
    )
    for name in ("initial", "best"):
        table.add_row(f"{name}: training minus held-out", "", summary[name]["gap"] or "–")


def _add_instances(table: Table, instances: Sequence[Mapping[str, Any]]) -> None:
    """Initial → best program of every instance, and the mean improvement."""
    for own in instances:
        constants = ", ".join(f"{name} {value}" for name, value in own["env_args"].items()) or "as configured"
        table.add_row(constants, *(f"{own['initial'][key]:.4f} → {own['best'][key]:.4f}" for key in _SPLITS))
    gains = [[improvement(own["initial"][key], own["best"][key]) for own in instances] for key in _SPLITS]
    table.add_row("mean improvement", *(f"{sum(own) / len(own):.1%}" for own in gains))


_SPLITS = ("score", "held_out")
