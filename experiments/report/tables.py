"""Tables of a report, as frames of text cells."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.experiments.loggers.metrics import improvement
from atlas_gym.experiments.report.comparison import Group
from atlas_gym.experiments.report.data import RunData
from atlas_gym.intervals import standard_error
from atlas_gym.text import one_line
from atlas_gym.trainers.data.measures import distinct_programs

MESSAGES_SHOWN = 12
CONTROLS = ("score_threshold", "beta", "epochs", "learning_rate")
"""Settings that the strategist may change."""


def phase_table(run: RunData) -> pd.DataFrame:
    """A row per phase that was not skipped. KL in nats per token; gains in units of score, ± their standard error."""

    def beside(value: float | None, form: str, other: float | None, also: str) -> str:
        if value is None or math.isnan(value):
            return "–"
        return format(value, form) + ("" if other is None or math.isnan(other) else also.format(other))

    rows = []
    for phase in run.tuned_phases:
        decision = phase.get("decision") or {}
        rows.append({
            "Phase": phase["phase"], "After round": phase["round"], "Pairs": phase.get("pairs"),
            "Pairs the supporter taught": phase.get("chosen_from", {}).get("supporter", 0),
            "Strategist changed": ", ".join(phase.get("changed_controls", ())),
            "KL (budget)": beside(phase["kl"], ".3f", decision.get("max_kl"), " ({:.2g})"),
            "Gain": beside(phase["gain"], "+.4f", phase.get("gain_error"), " ± {:.4f}"),
            "Gain asked": beside(decision.get("min_gain"), "+.4f", None, ""),
            "Reference": "promoted" if phase["promoted"] else "kept",
        })  # fmt: skip
    found = pd.DataFrame(rows)
    return found.loc[:, [not {*found[name]} <= {"–", "", 0, None} for name in found]]  # nothing empty


def caller_table(run: RunData) -> pd.DataFrame:
    """A row per supporter: how often it was asked, how often it answered, and what that took."""
    found = pd.DataFrame(
        {
            "Supporter": one_line(str(call["role"]), 40), "Calls": 1, "Answered": call["status"] == "ok",
            "Tokens": call.get("prompt_tokens", 0) + call.get("completion_tokens", 0),
            "Seconds": call.get("seconds", 0.0),
        }
        for call in run.supporter_calls
    )  # fmt: skip
    if found.empty:
        return found
    return found.groupby("Supporter", as_index=False, sort=False).sum().round(1)


def author_table(run: RunData) -> pd.DataFrame:
    """A row per author: different programs evaluated, the share of them that ran, the best score."""
    rows = run.candidates[run.candidates.new]
    found = rows.assign(ran=rows.status == "ok").groupby("origin", sort=False)
    found = found.agg(Evaluated=("id", "size"), ran=("ran", "mean"), best=("score", "max"))
    found["ran"] = found["ran"].map("{:.0%}".format)
    found["best"] = [mean_error([score]) for score in found["best"]]
    names = {"origin": "Written by", "ran": "Ran", "best": "Best score"}
    return found.reset_index().rename(columns=names)


def failure_table(run: RunData) -> pd.DataFrame:
    """The most frequent reasons why programs fail, in their smoke run or later, and their share of all failures.
    Messages that differ in their numbers are one reason, shown by the first."""
    failed = run.tried[run.tried.status != "ok"]
    last = failed.message.str.strip().str.rsplit("\n", n=1).str[-1]
    reasons = failed.assign(last=last, reason=last.str.replace(r"\d+", "0", regex=True)).groupby(
        ["status", "reason"]
    )
    found = reasons["last"].agg(["first", "size"]).sort_values("size", ascending=False, kind="stable")
    return pd.DataFrame(
        {"Ended in": status, "Message": text, "Programs": count, "Share": f"{count / len(failed):.1%}"}
        for (status, _), text, count in found.head(MESSAGES_SHOWN).itertuples()
    )


def score_table(groups: Sequence[Group]) -> pd.DataFrame:
    """Initial and best score of every group of runs, means ± standard errors over its runs, on the training seeds while
    one of its runs is unconfirmed."""
    rows = []
    for group in groups:
        confirmed = all(run.confirmed for run in group.runs)
        scores = [
            np.mean([(first, last, 100 * improvement(first, last)) for first, last in pairs], axis=0)
            for run in group.runs
            if (pairs := instance_scores(run, confirmed))
        ]
        if scores:
            initial, best, improved = np.transpose(scores)
            rows.append({
                "Runs": group.label, "Seeds": len(scores),
                "Scored on": "held-out seeds" if confirmed else "training seeds",
                "Initial": mean_error(initial), "Best": mean_error(best),
                "Improvement, %": mean_error(improved, ".1f"),
                "Evaluated": mean_error((run.counts["evaluated"] for run in group.runs), ".0f"),
            })  # fmt: skip
    return pd.DataFrame(rows)


def run_row(run: RunData) -> dict[str, Any]:
    """A run in a study's `runs.csv`; scores of several instances are their mean."""
    ends = instance_scores(run)
    written = run.candidates[run.candidates.origin != "seed"]
    phases = run.tuned_phases
    changed = Counter(name for phase in phases for name in set(phase.get("changed_controls", ())))
    return {
        "candidates": len(written),
        "evaluations": run.counts["evaluated"],
        "valid_share": sum(written.status == "ok") / len(written) if len(written) else 0.0,
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
    """Scores of the starting and the best program of each instance, on the held-out or the training seeds."""

    def score(record: Candidate) -> float:
        if held_out:
            return _mean(run.held_out_scores(record))
        return math.nan if record.score is None else record.score

    return [(score(start), score(best)) for start, best in run.ends]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def mean_error(values: Iterable[float], form: str = ".4f") -> str:
    """Mean ± standard error of those that are numbers; a single value has no error."""
    found = np.asarray([*values], dtype=float)
    found = found[~np.isnan(found)]
    if not len(found):
        return "–"
    mean = format(found.mean(), form)
    return mean if len(found) < 2 else f"{mean} ± {float(standard_error(found)):{form}}"
