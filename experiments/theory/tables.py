"""The study's tables: CSV for machines, Markdown for people."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from atlas_gym.experiments.report.table_formats import pipe_table
from atlas_gym.experiments.theory.lemma_study import BATCH
from atlas_gym.experiments.theory.runner import Cells, Results, slope, slopes_by_seed
from atlas_gym.experiments.theory.settings import Setting
from atlas_gym.intervals import Interval, mean_interval

TABLE_GROUPS = {
    "main": "Rotation by 4π, β = 1, floor 0.05",
    "control": "Controls",
    "ablation": "Ablations",
    "drift": "Other drifts, β = 1, floor 0.05",
}
Row = dict[str, Any]


def write_tables(results: Results, folder: Path, command: str) -> None:
    """Write every table into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    found = results.cells.items()
    tables = {
        "cells": [_columns(s) | _means(*cell) for s, cells in found for cell in cells.items()],
        "slopes": [_columns(s) | _slope_columns(cells) for s, cells in found if len(cells) > 1],
        "lemmas": _lemmas(results),
        "broken": results.broken,
        "margins": results.margins,
        "floor_prices": results.floor_prices,
    }
    for name, rows in tables.items():
        frame = pd.DataFrame(rows)
        frame.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    (folder / "tables.md").write_text(_report(results, command), encoding="utf-8")


def headline(results: Results) -> str:
    """What the study was made for, in a few lines."""
    rows = {setting.name: cells for setting, cells in results.group("main")}
    dpo, evo = rows["DPO, fixed uniform reference"], rows["EvoDPO, reference every phase"]
    difference = mean_interval(slopes_by_seed(evo) - slopes_by_seed(dpo))  # the seeds share their bandits
    best = (f"{method} {_best(results, method)[1]:.0f}" for method in ("DPO", "EvoDPO"))
    violations = sum(row["violations"] for row in _lemmas(results))
    return "\n".join([
        f"slope of log R over log T: DPO {slope(dpo):.2f}, EvoDPO {slope(evo):.2f}, "
        f"paired difference {difference:.2f}",
        f"each at its best β and phase length, R at T = {results.plan.sweep_horizon}: {', '.join(best)}",
        f"lemmas: {violations} violations on {BATCH * results.plan.lemma_batches} random instances and all paths",
    ])  # fmt: skip


def _report(results: Results, command: str) -> str:
    plan = results.plan
    parts = {title: [_line(*row) for row in results.group(group)] for group, title in TABLE_GROUPS.items()}
    parts |= {
        "Does it last? Slopes between neighbouring horizons": [_lasting(*row) for row in results.group("long")],
        f"Each method at its best, T = {plan.sweep_horizon}": [_tuned(results, m) for m in ("DPO", "EvoDPO")],
        "What a constant floor costs: θ known, no drift, t → ∞": [
            {"floor": f"{p['floor']:g}", "β": f"{p['beta']:g}", "regret per round for ever": f"{p['regret']:.4f}",
             "share of DPO's": f"{p['share']:.3f}"} for p in results.floor_prices
        ],
        "Lemmas": [
            {"inequality": r["inequality"], "checked on": r["on"], "comparisons": f"{r['checked']:,}",
             "violations": str(r["violations"]), "tightest left/right": f"{r['tightest']:.3g}"}
            for r in _lemmas(results)
        ],
        "Broken assumptions": [
            {"inequality": b["inequality"], "what was broken": b["how"],
             "instances that violate it": f"{b['violations']} of {b['instances']}"} for b in results.broken
        ],
        "Lemma A.3 along the drifts": [
            {"drift": m["drift"], "T": str(m["horizon"]), "switches per context": f"{m['switches']:.1f}",
             "smallest margin γ": f"{m['margin']:.1e}", "bound 2 φ_max V_T/γ": f"{m['bound']:.1e}",
             "largest step": f"{m['step']:.4f}"} for m in results.margins
        ],
    }  # fmt: skip
    head = (
        f"# Tables of the theory study\n\nWritten by `{command}`: {plan.seeds} seeds, means over seeds; slopes of "
        f"log R_T over log T for T = {', '.join(map(str, plan.horizons))}; 95 % intervals over seeds (Student's t)."
    )
    shown = (f"## {title}\n\n{pipe_table(rows)}" for title, rows in parts.items() if rows)
    return "\n".join([f"{head}\n", *shown])


def _line(setting: Setting, cells: Cells) -> Row:
    (start, first), *_, (end, last) = cells.items()
    return {
        "setting": setting.name,
        f"V_T at {end}": f"{last.budget.mean():.3g}",
        f"R at {start}": f"{first.regret.mean():.0f}",
        f"R at {end}": f"{last.regret.mean():.0f}",
        f"R/T at {end}": f"{last.regret.mean() / end:.3f}",
        "slope [95 %]": f"{slope(cells):.2f}",
        "bias share": f"{last.bias.sum() / last.regret.sum():.2f}",
        "acceptance": f"{last.acceptance.mean():.2f}",
        "KL per decision": f"{last.kl.mean():.3f}",
        "log10 min π_ref": f"{last.lowest.min():.1f}",
        "c₀": f"{last.diversity.mean():.3f}",
    }


def _lasting(setting: Setting, cells: Cells) -> Row:
    end = max(cells)
    slopes = {f"{a[0]} → {b[0]}": f"{slope(dict((a, b))):.2f}" for a, b in pairwise(cells.items())}
    return {"setting": setting.name, **slopes, f"R/T at {end}": f"{cells[end].regret.mean() / end:.3f}"}


def _tuned(results: Results, method: str) -> Row:
    """The best and the default cell of the grids over β and phases per window."""
    default, (name, best) = "β 1, 2 phases per window", _best(results, method)
    return {
        "method": method, f"default: {default}": f"{mean_interval(_grid(results, method)[default]):.0f}",
        "best of the grid": f"{best:.0f}", "its setting": name,
    }  # fmt: skip


def _grid(results: Results, method: str) -> dict[str, pd.Series]:
    """Regret by setting."""
    at = results.plan.sweep_horizon
    return {setting.name: cells[at].regret for setting, cells in results.group(f"grid {method}")}


def _best(results: Results, method: str) -> tuple[str, Interval]:
    """Name and regret of the grid's best cell."""
    rows = _grid(results, method)
    name = min(rows, key=lambda row: rows[row].mean())
    return name, mean_interval(rows[name])


def _columns(setting: Setting) -> Row:
    learner, first = setting.learner, "stale" if setting.learner.stale else "uniform"
    return {
        "group": setting.group, "setting": setting.name, "drift": setting.drift, "value": setting.value,
        "rule": learner.rule.name, "first": first, "beta": learner.beta, "floor": learner.floor,
        "min_gain": learner.gate.min_gain, "max_kl": learner.gate.max_kl,
    }  # fmt: skip


def _means(horizon: int, cell: pd.DataFrame) -> Row:
    """Mean and ends of the 95 % interval of each measure that has one value per seed."""
    columns: Row = {"horizon": horizon, "budget": cell.budget.mean()}
    for name in ("regret", "learning", "bias", "acceptance", "kl", "diversity"):
        found = mean_interval(cell[name])
        columns |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
    return columns | {"lowest": cell.lowest.min(), "decomposition_gap": cell.decomposition_gap.max()}


def _slope_columns(cells: Cells) -> Row:
    found = slope(cells)
    return {"up_to": max(cells), "mean": found.mean, "low": found.low, "high": found.high}


def _lemmas(results: Results) -> list[Row]:
    checked = {"random instances": results.on_instances, "study paths": results.on_paths}
    found = pd.concat(checked, names=["on"]).reset_index(level="on").reset_index()
    return found.to_dict("records")
