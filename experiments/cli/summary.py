"""The table at the end of a run, and the files that go with it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from atlas_gym.experiments.loggers.metrics import improvement
from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.figures import as_png, draw_learning, draw_scores
from atlas_gym.experiments.report.page import write_report
from atlas_gym.experiments.report.tables import author_table
from atlas_gym.experiments.report.words import counted, said
from atlas_gym.text import clean, one_line
from atlas_gym.trainers.store.folder import write_anew


def print_summary(run: RunData, summary: Mapping[str, Any], console: Console) -> None:
    """Scores, what tuning changed, spending and the best program; phases are in the report."""
    splits, best, several = ("score", "held_out"), summary["best"], len(summary["instances"]) > 1
    table = Table(
        "start → best", "training seeds", "held-out seeds",
        title=f"{summary['env']} · {summary['method']} · seed {summary['seed']} · {summary['rounds']} rounds",
        caption=f"{counted(run)}; {summary['valid_share']:.0%} ran; {summary['held_out_seeds']} held-out seeds",
    )  # fmt: skip
    ends = summary["instances"] if several else [{"env_args": {}, **summary}]
    for own in ends:
        words = ", ".join(f"{name} {value}" for name, value in own["env_args"].items()) or "as configured"
        table.add_row(words, *(f"{own['initial'][key]:.4f} → {own['best'][key]:.4f}" for key in splits))
    gains = [[improvement(own["initial"][key], own["best"][key]) for own in ends] for key in splits]
    mean = "mean improvement" if several else "improvement"
    table.add_row(mean, *(f"{sum(own) / len(own):.1%}" for own in gains))
    if best["gap"]:
        table.add_row("of the best, training minus held-out", "", best["gap"])
    console.print(table)
    if words := said(run):
        console.print(f"\n{words}", markup=False, highlight=False)
    rows = author_table(run).to_dict("records")
    written = ("{Written by} {Evaluated} (best {Best score})".format(**row) for row in rows)
    console.print(f"\nEvaluated by writer: {', '.join(written)}.", markup=False, highlight=False)
    for model, spent in summary["spending"].items():
        console.print(
            f"\n{model}: {spent['requests']} requests, {spent['prompt_tokens']} tokens read, "
            f"{spent['completion_tokens']} written",
            markup=False,
        )  # fmt: skip
    console.print(f"\nBest program (candidate {best['id']}, origin: {best['origin']}):")
    console.print(Syntax(best["program"], "python", background_color="default"))


def write_files(run: RunData, summary: Mapping[str, Any], warn: Callable[[str], None]) -> list[Path]:
    """Write the best program, the figures and the report into the run folder; returns their paths. The run is complete:
    of a picture or page that fails a line is said."""
    title = f"{summary['env']}, {summary['method']}, seed {summary['seed']}"
    best = summary["best"]
    text = f"# Written by: {best['origin']}. Score {best['score']:.6g}.\n{best['program']}"
    files = [write_anew(run.folder / "best_program.py", text)]

    def learning(path: Path) -> None:
        if (figure := draw_learning(run)) is not None:
            as_png(figure, path)

    made: dict[str, Callable[[Path], object]] = {
        "best_score.png": lambda path: as_png(draw_scores(run, title), path),
        "learning.png": learning,
        "report.html": lambda path: write_report([run.folder], path),
    }
    for name, make in made.items():
        try:
            make(path := run.folder / name)
            files += [path] if path.exists() else []
        except Exception as error:  # noqa: BLE001  they can be made again
            said = f"{type(error).__name__}: {one_line(str(error), 300)}"
            warn(f"No {name} ({said}). Try atlas report {clean(str(run.folder), 300)}")
    return files
