"""The study's tables: CSV for machines, Markdown for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.theory.checks import Tally
from experiments.theory.measures import Cell, interval, slope, slopes_by_seed
from experiments.theory.runner import Results
from experiments.theory.settings import Setting

TABLE_GROUPS = {
    "main": "Rotation by 4π, β = 1, floor 0.05",
    "control": "Controls",
    "ablation": "Ablations",
    "drift": "Other drifts, β = 1, floor 0.05",
}


def write_tables(results: Results, folder: Path, command: str) -> list[Path]:
    """Write every table into `folder`; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    cells = [row for setting, found in results.cells.items() for row in _cell_rows(setting, found)]
    slopes = [_slope_row(setting, found) for setting, found in results.cells.items() if len(found) > 1]
    lemmas = [
        *_tally_rows("random instances", results.on_instances),
        *_tally_rows("study paths", results.on_paths),
    ]
    broken = [vars(row) for row in results.broken]
    tables = {
        "cells": cells,
        "slopes": slopes,
        "lemmas": lemmas,
        "broken": broken,
        "margins": [vars(row) for row in results.margins],
        "floor_prices": [vars(row) for row in results.floor_prices],
    }
    paths = [_write_csv(folder / f"{name}.csv", rows) for name, rows in tables.items()]
    report = folder / "tables.md"
    report.write_text(_report(results, command), encoding="utf-8")
    return [*paths, report]


def headline(results: Results) -> str:
    """The comparison the issue asks for, in a few lines."""
    rows = {setting.name: cells for setting, cells in results.group("main")}
    dpo, evo = (
        slope(rows[name]) for name in ("DPO, fixed uniform reference", "EvoDPO, reference every phase")
    )
    difference = _paired(rows["EvoDPO, reference every phase"], rows["DPO, fixed uniform reference"])
    gap = max(cell.decomposition_gap for cells in results.cells.values() for cell in cells)
    violations = sum(
        tally.violations for group in (results.on_paths, results.on_instances) for tally in group.values()
    )
    instances = 25 * results.plan.lemma_batches
    return "\n".join(
        [
            f"slope of log R over log T: DPO {_interval(dpo.mean, dpo.low, dpo.high)}, "
            f"EvoDPO {_interval(evo.mean, evo.low, evo.high)}, paired difference {_interval(*difference)}",
            f"the intervals {'OVERLAP' if dpo.overlaps(evo) else 'do not overlap'}; "
            f"EvoDPO's slope is {'below' if evo.high < 0.75 else 'NOT below'} 0.75",
            f"each at its best β and phase length, R at T = {results.plan.sweep_horizon}: "
            + ", ".join(
                f"{method} {_interval(*_best(results, method)[1], 0)}" for method in ("DPO", "EvoDPO")
            ),
            f"lemmas: {violations} violations on {instances} random instances and all paths of the study",
            f"decomposition: |regret − learning − bias| ≤ {gap:.1e} in every round",
            f"{results.seconds:.0f} s in {results.jobs} processes, {results.cpu_seconds:.0f} s of processor time",
        ]
    )


def _report(results: Results, command: str) -> str:
    parts = [
        "# Tables of the theory study",
        f"Written by `{command}`: {results.plan.seeds} seeds, means over seeds; slopes of log R_T over log T "
        f"for T = {', '.join(map(str, results.plan.horizons))}; 95 % intervals over seeds (Student's t).",
    ]
    for group, title in TABLE_GROUPS.items():
        if rows := results.group(group):
            parts += [f"## {title}", _setting_table(rows)]
    parts += ["## Does it last? Slopes between neighbouring horizons", _long_table(results)]
    parts += [f"## Each method at its best, T = {results.plan.sweep_horizon}", _best_table(results)]
    parts += ["## What a constant floor costs: θ known, no drift, t → ∞", _floor_table(results)]
    parts += ["## Lemmas", _lemma_table(results), "## Broken assumptions", _broken_table(results)]
    parts += ["## Lemma A.3 along the drifts", _margin_table(results)]
    return "\n\n".join(parts) + "\n"


def _setting_table(rows: Sequence[tuple[Setting, list[Cell]]]) -> str:
    first, last = rows[0][1][0].horizon, rows[0][1][-1].horizon
    header = (
        "setting", f"V_T at {last}", f"R at {first}", f"R at {last}", f"R/T at {last}", "slope [95 %]",
        "bias share", "acceptance", "KL per decision", "log10 min π_ref", "c₀",
    )  # fmt: skip
    return _markdown(header, (_setting_line(setting, cells) for setting, cells in rows))


def _setting_line(setting: Setting, cells: list[Cell]) -> list[str]:
    s, last = slope(cells), cells[-1]
    return [
        setting.name,
        f"{last.budget:.3g}",
        f"{cells[0].regret.mean():.0f}",
        f"{last.regret.mean():.0f}",
        f"{last.regret.mean() / last.horizon:.3f}",
        _interval(s.mean, s.low, s.high),
        f"{last.bias.sum() / last.regret.sum():.2f}",
        f"{last.acceptance.mean():.2f}",
        f"{last.kl.mean():.3f}",
        f"{last.lowest.min():.1f}",
        f"{last.diversity.mean():.3f}",
    ]


def _long_table(results: Results) -> str:
    rows = results.group("long")
    horizons = [cell.horizon for cell in rows[0][1]]
    header = ("setting", *(f"{a} → {b}" for a, b in pairwise(horizons)), f"R/T at {horizons[-1]}")
    lines = []
    for setting, cells in rows:
        pairs = [slope(list(pair)) for pair in pairwise(cells)]
        rate = cells[-1].regret.mean() / cells[-1].horizon
        lines.append([setting.name, *(_interval(s.mean, s.low, s.high) for s in pairs), f"{rate:.3f}"])
    return _markdown(header, lines)


def _lemma_table(results: Results) -> str:
    header = ("inequality", "checked on", "comparisons", "violations", "tightest left/right")
    rows = [
        *_tally_rows("random instances", results.on_instances),
        *_tally_rows("study paths", results.on_paths),
    ]
    return _markdown(
        header,
        (
            [r["inequality"], r["on"], f"{r['checked']:,}", str(r["violations"]), f"{r['tightest']:.3g}"]
            for r in rows
        ),
    )


def _broken_table(results: Results) -> str:
    header = ("inequality", "what was broken", "instances that violate it")
    return _markdown(
        header, ([b.inequality, b.how, f"{b.violations} of {b.instances}"] for b in results.broken)
    )


def _best_table(results: Results) -> str:
    """The best and the default cell of the grids over β and phases per window."""
    header = ("method", "default: β 1, 2 phases per window", "best of the grid", "its setting")
    lines = []
    for method in ("DPO", "EvoDPO"):
        default = next(c for s, c in results.group(f"grid {method}") if s.name == "β 1, 2 phases per window")
        name, best = _best(results, method)
        lines.append([method, _interval(*interval(default[0].regret), 0), _interval(*best, 0), name])
    return _markdown(header, lines)


def _best(results: Results, method: str) -> tuple[str, tuple[float, float, float]]:
    """Name and regret of the grid's best cell."""
    rows = {setting.name: cells[0].regret for setting, cells in results.group(f"grid {method}")}
    name = min(rows, key=lambda row: rows[row].mean())
    return name, interval(rows[name])


def _margin_table(results: Results) -> str:
    header = (
        "drift",
        "T",
        "switches per context",
        "smallest margin γ",
        "bound 2 φ_max V_T/γ",
        "largest step",
    )
    lines = (
        [m.drift, str(m.horizon), f"{m.switches:.1f}", f"{m.margin:.1e}", f"{m.bound:.1e}", f"{m.step:.4f}"]
        for m in results.margins
    )
    return _markdown(header, lines)


def _floor_table(results: Results) -> str:
    header = ("floor", "β", "regret per round for ever", "share of DPO's")
    lines = (
        [f"{p.floor:g}", f"{p.beta:g}", f"{p.regret:.4f}", f"{p.share:.3f}"] for p in results.floor_prices
    )
    return _markdown(header, lines)


def _cell_rows(setting: Setting, cells: list[Cell]) -> list[dict]:
    return [
        _settings_columns(setting) | {"horizon": cell.horizon, "budget": cell.budget} | _means(cell)
        for cell in cells
    ]


def _means(cell: Cell) -> dict:
    """Mean and ends of the 95 % interval of each measure that has one value per seed."""
    columns: dict[str, float] = {}
    for name in ("regret", "learning", "bias", "acceptance", "kl", "diversity"):
        mean, low, high = interval(getattr(cell, name))
        columns |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return columns | {"lowest": float(cell.lowest.min()), "decomposition_gap": cell.decomposition_gap}


def _slope_row(setting: Setting, cells: list[Cell]) -> dict:
    return _settings_columns(setting) | {"up_to": cells[-1].horizon} | vars(slope(cells))


def _settings_columns(setting: Setting) -> dict:
    learner = setting.learner
    return {
        "group": setting.group, "setting": setting.name, "drift": setting.drift_name, "value": setting.value,
        "rule": type(learner.rule).__name__.lower(), "first": learner.first, "beta": learner.beta,
        "floor": learner.floor, "min_gain": learner.gate.min_gain, "max_kl": learner.gate.max_kl,
    }  # fmt: skip


def _tally_rows(where: str, tallies: dict[str, Tally]) -> list[dict]:
    return [{"inequality": name, "on": where} | vars(tally) for name, tally in sorted(tallies.items())]


def _paired(ours: list[Cell], theirs: list[Cell]) -> tuple[float, float, float]:
    """Difference of slopes, seed by seed (the seeds share their bandits)."""
    horizons = np.array([cell.horizon for cell in ours], dtype=float)
    both = [slopes_by_seed(horizons, np.stack([cell.regret for cell in cells])) for cells in (ours, theirs)]
    return interval(both[0] - both[1])


def _interval(mean: float, low: float, high: float, digits: int = 2) -> str:
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _write_csv(path: Path, rows: list[dict]) -> Path:
    pd.DataFrame(rows).to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    return path
