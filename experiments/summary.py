"""The table at the end of a run, and the files that go with it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from experiments.figure import draw_run
from trainers.store import RunStore


def print_summary(store: RunStore, summary: Mapping[str, Any], console: Console) -> None:
    """Scores, phases and the best program's source, as a person wants to see them."""
    console.print(_score_table(summary))
    phases = [p for p in store.phases() if not p.get("skipped")]
    if phases:
        console.print(_phase_table(store, phases))
    console.print(f"\nBest program (candidate {summary['best']['id']}, written by the {summary['best']['origin']}):")
    console.print(Syntax(summary["best"]["program"], "python", background_color="default"))


def write_files(store: RunStore, summary: Mapping[str, Any]) -> list[Path]:
    """Write the best program and the figure into the run folder; returns their paths."""
    program = store.folder / "best_program.py"
    program.write_text(summary["best"]["program"], encoding="utf-8")
    figure = store.folder / "best_score.png"
    draw_run(store, figure, f"{summary['env']}, {summary['method']}, seed {summary['seed']}")
    return [program, figure]


def _score_table(summary: Mapping[str, Any]) -> Table:
    table = Table(title=f"{summary['env']} · {summary['method']} · seed {summary['seed']} · {summary['rounds']} rounds")
    for heading, justify in (("", "left"), ("training seeds", "right"), ("held-out seeds", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for name in ("initial", "best"):
        row = summary[name]
        table.add_row(f"{name} program", f"{row['score']:.4f}", _with_error(row["held_out"], row["held_out_error"]))
    table.add_row(
        "improvement",
        f"{improvement(summary['initial']['score'], summary['best']['score']):.1%}",
        f"{improvement(summary['initial']['held_out'], summary['best']['held_out']):.1%}",
    )
    table.caption = (
        f"{summary['candidates']} candidates, {summary['evaluated']} different programs evaluated, "
        f"{summary['valid_share']:.0%} valid; {summary['held_out_seeds']} held-out seeds; "
        f"origin of the best: {summary['best']['origin']}"
    )
    return table


def improvement(initial: float, final: float) -> float:
    """Share of the initial program's loss that is gone; scores are negative losses."""
    return 1.0 - final / initial if initial else math.nan


def _phase_table(store: RunStore, phases: list[dict[str, Any]]) -> Table:
    table = Table(title="Fine-tuning phases (fresh samples on fixed prompts, ± standard error over prompts)")
    headings = ("phase", "pairs", "valid", "new", "improving", "distinct", "KL/token", "gain", "reference")
    for heading in headings:
        table.add_column(heading, justify="right")
    for phase in phases:
        number = phase["phase"]
        before, after = store.probe(number, "before"), store.probe(number, "after")
        shares = [_change(before, after, name) for name in ("valid", "new", "improving")]
        distinct = f"{before['distinct']} → {after['distinct']}" if before and after else "–"
        table.add_row(
            f"{number} (round {phase['round']})", str(phase["pairs"]), *shares, distinct, f"{phase['kl']:.3f}",
            "–" if phase["gain"] is None else f"{phase['gain']:+.3f}±{phase['gain_error']:.3f}",
            "promoted" if phase["promoted"] else "kept",
        )  # fmt: skip
    return table


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str) -> str:
    if before is None or after is None:
        return "–"
    return f"{_share(before[name])} → {_share(after[name])}"


def _share(share: Mapping[str, float]) -> str:
    return f"{share['value']:.2f}±{share['error']:.2f}"


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if error is None else f"{value:.4f} ± {error:.4f}"
