"""The table at the end of a run, and the files that go with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from experiments.loggers.metrics import improvement
from experiments.report.data import read_run
from experiments.report.figures import draw_progress
from experiments.report.learning_figure import said, save_learning
from experiments.report.tables import taught_share
from trainers.store.store import RunStore


def print_summary(store: RunStore, summary: Mapping[str, Any], console: Console) -> None:
    """Scores, phases and the best program's source, as a person wants to see them."""
    console.print(_score_table(summary))
    phases = [p for p in store.phases() if not p.get("skipped")]
    if phases:
        console.print(_phase_table(store, phases))
    if words := said(read_run(store.folder)):
        console.print(f"\n{words}", markup=False, highlight=False)
    for model, spent in summary["spending"].items():
        console.print(
            f"\n{model}: {spent['requests']} requests, {spent['prompt_tokens']} tokens read, "
            f"{spent['completion_tokens']} written, cost {spent['money']:.4g}", markup=False,
        )  # fmt: skip
    console.print(f"\nBest program (candidate {summary['best']['id']}, origin: {summary['best']['origin']}):")
    console.print(Syntax(summary["best"]["program"], "python", background_color="default"))


def write_files(store: RunStore, summary: Mapping[str, Any]) -> list[Path]:
    """Write the best program and the figure into the run folder; returns their paths."""
    program = store.folder / "best_program.py"
    program.write_text(summary["best"]["program"], encoding="utf-8")
    figure = store.folder / "best_score.png"
    draw_progress(
        read_run(store.folder), figure, f"{summary['env']}, {summary['method']}, seed {summary['seed']}"
    )
    learned = save_learning(read_run(store.folder), store.folder / "learning.png")
    return [program, figure, *learned]


def _score_table(summary: Mapping[str, Any]) -> Table:
    table = Table(
        title=f"{summary['env']} · {summary['method']} · seed {summary['seed']} · {summary['rounds']} rounds"
    )
    for heading, justify in (("", "left"), ("training seeds", "right"), ("held-out seeds", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
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
        table.add_row(
            f"{name} program", f"{row['score']:.4f}", _with_error(row["held_out"], row["held_out_error"])
        )
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


def _phase_table(store: RunStore, phases: list[dict[str, Any]]) -> Table:
    table = Table(title="Fine-tuning phases: fresh samples on fixed prompts, ± standard error over prompts")
    table.add_column("")
    for phase in phases:
        table.add_column(f"phase {phase['phase']} (round {phase['round']})", justify="right")
    probes = [(store.probe(p["phase"], "before"), store.probe(p["phase"], "after")) for p in phases]
    for name in ("valid", "new", "improving"):
        table.add_row(f"{name}, before → after", *[_change(before, after, name) for before, after in probes])
    table.add_row(
        "distinct programs, before → after", *[_distinct(before, after) for before, after in probes]
    )
    table.add_row("samples", *["–" if after is None else str(after["samples"]) for _, after in probes])
    table.add_row("preference pairs", *[str(p["pairs"]) for p in phases])
    table.add_row("of them, chosen text by the supporter", *[taught_share(p) for p in phases])
    table.add_row("KL per token (budget)", *[_kl(p) for p in phases])
    table.add_row("Ŝ gain over the reference", *[_with_sign(p["gain"], p["gain_error"]) for p in phases])
    table.add_row("reference", *["promoted" if p["promoted"] else "kept" for p in phases])
    return table


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str) -> str:
    if before is None or after is None:
        return "–"
    return f"{_share(before[name])} → {_share(after[name])}"


def _distinct(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    return "–" if before is None or after is None else f"{before['distinct']} → {after['distinct']}"


def _kl(phase: Mapping[str, Any]) -> str:
    budget = f" ({phase['decision']['max_kl']:.2g})" if phase["decision"] else ""
    return f"{phase['kl']:.3f}{budget}"


def _with_sign(value: float | None, error: float | None) -> str:
    return "–" if value is None or error is None else f"{value:+.3f} ± {error:.3f}"


def _share(share: Mapping[str, float]) -> str:
    return f"{share['value']:.2f}±{share['error']:.2f}"


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if error is None else f"{value:.4f} ± {error:.4f}"
