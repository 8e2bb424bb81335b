"""Runs as rows of plain numbers, and of these tables in the paper's shape (its Tables 2 to 5) and those a single run
needs, as plain text cells.

Everything is a mean over seeds ± its standard error; a single seed has none.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from atlas_gym.experiments.loggers.metrics import improvement
from atlas_gym.experiments.report.comparison import Group
from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.learning import learning_table
from atlas_gym.experiments.report.table_formats import Table, table, without_empty
from atlas_gym.intervals import standard_error
from atlas_gym.trainers.data.measures import distinct_programs

Row = dict[str, Any]

CONTROLS = {"score_threshold": "Threshold", "beta": "β", "epochs": "Epochs", "learning_rate": "Learning rate"}
"""What the strategist may change, and how tables call it."""
_RATES = {**{head: f"changed_{name}" for name, head in CONTROLS.items()}, "Reference moved": "promoted"}
"""Column head → what is counted."""


def run_row(run: RunData, held_out: bool = True) -> Row:
    """One run: scores (with several instances their mean), shares, phases, and what was done by whom.

    Args:
        run: the run.
        held_out: whether its scores are those of the held-out seeds; else those of the training seeds, which stand in
            while a run is unconfirmed.
    """
    ends = instance_scores(run, held_out)
    phases = run.tuned_phases
    changed = Counter(name for phase in phases for name in set(phase.get("changed_controls", ())))
    return {
        "candidates": run.written["candidates"],
        "evaluations": run.written["evaluated"],
        "valid_share": run.written["valid_share"],
        "distinct": len(distinct_programs(c for c in run.everything() if c.round > 0)),
        "improving": sum(unit["improving"] for unit in run.rounds if "improving" in unit),
        "initial_held_out": _mean([initial for initial, _ in ends]),
        "best_held_out": _mean([best for _, best in ends]),
        "improvement": _mean([improvement(initial, best) for initial, best in ends]),
        "best_training": run.best.score if run.best else None,
        "best_origin": run.best.origin if run.best else "",
        "held_out_seeds": len(run.held_out_scores(run.best)),
        "phases": len(phases),
        "promoted": sum(bool(phase["promoted"]) for phase in phases),
        **{f"changed_{name}": changed[name] for name in CONTROLS},
    }


def instance_scores(run: RunData, held_out: bool = True) -> list[tuple[float, float]]:
    """Scores of the starting and the best program of each instance."""
    return [(_score(run, start, held_out), _score(run, best, held_out)) for start, best in run.ends]


def share(part: int, whole: int) -> float:
    """A share; 0 of nothing."""
    return part / whole if whole else 0.0


def _score(run: RunData, record: Any, held_out: bool) -> float:
    scores = run.held_out_scores(record) if held_out else [getattr(record, "score", None)]
    return _mean([score for score in scores if score is not None])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table that has rows for these runs."""
    runs = _rows(groups)
    note = "" if runs.confirmed.all() else "Training seeds stand in where a run is unconfirmed. "
    tables = [
        final_scores(runs, "Environment", note),
        *([ablation(runs)] if _is_ablation(groups) else []),
        interventions(runs, "Environment"),
        interventions_by_run(runs[runs.phases > 0], "Environment"),
        phases(groups),
        learning_table(_runs(groups)),
        best_programs(groups),
    ]
    return [table for table in tables if table.rows]


def _rows(groups: Sequence[Group]) -> pd.DataFrame:
    """A row a run: the group's label is the method, its environment where it started."""
    rows = []
    for group in groups:
        confirmed = all(run.confirmed for run in group.runs)
        start = str(group.runs[0].setting("env", "unknown")) + ("" if confirmed else ", training seeds")
        for run in group.runs:
            key = {"arm": group.label, "start": start, "seed": run.setting("seed", "")}
            rows.append({**key, "confirmed": confirmed, **run_row(run, confirmed)})
    return pd.DataFrame(rows)


def _is_ablation(groups: Sequence[Group]) -> bool:
    """Whether the groups differ in method and environment alone: those of a sweep are no ablation of components."""
    settings = [(g.runs[0].setting("method"), g.runs[0].setting("env")) for g in groups]
    return len(set(settings)) == len(settings) and len({method for method, _ in settings}) > 1


OVER_SEEDS = "± is the standard error over the runs' seeds."
"""Said under every table of such means."""


def final_scores(runs: pd.DataFrame, where: str = "Start", note: str = "") -> Table:
    """The paper's Table 2: initial and best score by method, on the seeds that no program was chosen by."""
    rows = (
        {
            "Method": arm, where: start, "Seeds": str(len(own)), "Initial": mean_error(own.initial_held_out),
            "Best": mean_error(own.best_held_out), "Improvement": percent_error(own.improvement),
            "Evaluations": mean_error(own.evaluations, ".0f"),
        }
        for (arm, start), own in groups_of(runs[runs.best_training.notna()], "arm", "start")
    )  # fmt: skip
    note += (
        "Held-out seeds that chose no program; improvement is the share of the initial program's loss that is gone; of "
        "several instances the mean. " + OVER_SEEDS
    )
    return table("final_scores", "Best program on held-out seeds", rows, note)


def ablation(runs: pd.DataFrame) -> Table:
    """The paper's Table 4: improvement by method, one column a start or environment."""
    starts = list(dict.fromkeys(runs.start))
    rows = (
        {"Method": arm, **{start: percent_error(own[own.start == start].improvement) for start in starts}}
        for (arm,), own in groups_of(runs, "arm")
    )
    return table("ablation", "Improvement by method and start", rows, OVER_SEEDS)


def interventions(runs: pd.DataFrame, where: str = "Start") -> Table:
    """The paper's Table 3: how often the strategist changed what, and how often the reference moved."""
    rows = (
        {
            "Method": arm, where: start, "Phases": str(own.phases.sum()),
            **{rate: f"{own[key].sum() / own.phases.sum():.0%}" for rate, key in _RATES.items()},
        }
        for (arm, start), own in groups_of(runs[runs.phases > 0], "arm", "start")
    )  # fmt: skip
    note = "Share of the tuning phases of all seeds. Without a gate the reference rule decides what moves."
    return table("interventions", "Strategist and inspector", rows, note)


def interventions_by_run(runs: pd.DataFrame, where: str = "Start") -> Table:
    """The paper's Table 5: the same run by run."""
    rows = (
        {
            "Method": row["arm"], where: row["start"], "Seed": str(row["seed"]),
            **{rate: f"{row[key]}/{row['phases']}" for rate, key in _RATES.items()},
        }
        for row in runs.to_dict("records")
    )  # fmt: skip
    return table("interventions_by_run", "Run by run", rows)


def mean_error(values: Iterable[float], form: str = ".4f") -> str:
    """Mean ± standard error of those that are numbers; a single value has no error."""
    found = np.asarray([*values], dtype=float)
    found = found[~np.isnan(found)]
    if not len(found):
        return "–"
    mean = format(found.mean(), form)
    return mean if len(found) < 2 else f"{mean} ± {float(standard_error(found)):{form}}"


def percent_error(values: Iterable[float]) -> str:
    """The same in per cent."""
    text = mean_error([100 * v for v in values], ".1f")
    return text if text == "–" else f"{text} %"


def groups_of(rows: pd.DataFrame, *keys: str) -> list[tuple[tuple, pd.DataFrame]]:
    """Rows by the values of some columns: all arms of a start, then those of the next, in the rows' order."""
    found = list(rows.groupby(list(keys), sort=False)) if len(rows) else []
    starts = list(dict.fromkeys(key[1:2] for key, _ in found))
    return sorted(found, key=lambda item: starts.index(item[0][1:2]))


def phases(groups: Sequence[Group]) -> Table:
    """What each fine-tuning phase did, by the gate."""
    rows = ({"Run": run.name, **row} for run in _runs(groups) for row in phase_rows(run))
    note = "KL in nats per token. Taught: pairs that choose what the exploration supporter wrote."
    return table("phases", "Fine-tuning phases", without_empty(rows), note)


def phase_rows(run: RunData) -> Iterator[dict[str, str]]:
    """A row a phase that was not skipped."""
    for phase in run.tuned_phases:
        yield {
            "Phase": str(phase["phase"]), "After round": str(phase["round"]), "Pairs": str(phase.get("pairs", "–")),
            "Taught": str(phase["chosen_from"].get("supporter", 0)) if "chosen_from" in phase else "–",
            "KL (budget)": _optional(phase["kl"], ".3f", (phase.get("decision") or {}).get("max_kl"), " ({:.2g})"),
            "Gain": _optional(phase["gain"], "+.4f", phase.get("gain_error"), " ± {:.4f}"),
            "Reference": "promoted" if phase["promoted"] else "kept",
        }  # fmt: skip


def best_programs(groups: Sequence[Group]) -> Table:
    """The best different programs of every run; with several instances those furthest above their start."""
    rows = (
        {
            "Run": run.name, "Candidate": str(record.id), "Round": str(record.round), "Island": str(record.island),
            "Origin": record.origin, "Training seeds": f"{record.score:.4f}",
            "Held-out seeds": mean_error(run.held_out_scores(record)),
        }
        for run in _runs(groups) for record in run.top
    )  # fmt: skip
    note = "± is the standard error over the held-out seeds."
    return table("best_programs", "Best programs", rows, note)


def _runs(groups: Iterable[Group]) -> list[RunData]:
    return [run for group in groups for run in group.runs]


def _optional(value: float | None, form: str, beside: float | None, also: str) -> str:
    """A number and what stands beside it, where they are there."""
    if value is None:
        return "–"
    return format(value, form) + ("" if beside is None else also.format(beside))


def _share(share: Mapping[str, float]) -> str:
    return f"{share['value']:.2f}±{share['error']:.2f}"
