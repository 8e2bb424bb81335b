"""Tables in the paper's shape (its Tables 2 to 5) and those a single run needs, as plain text cells."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from experiments.report.comparison import Group
from experiments.report.data import RunData

_METHOD_NAMES = {
    "search": "Search without tuning",
    "evotune": "Baseline (EvoTune)",
    "evodpo": "+ Adaptivity (EvoDPO)",
    "atlas": "+ Supporters (ATLAS)",
}
_CONTROLS = {
    "score_threshold": "Threshold",
    "beta": "β",
    "epochs": "Epochs",
    "learning_rate": "Learning rate",
}


@dataclass(frozen=True)
class Table:
    """A table of text."""

    name: str
    """File name without its ending."""
    title: str
    """Caption."""
    columns: tuple[str, ...]
    """Column heads; the first column is text, the others are figures."""
    rows: tuple[tuple[str, ...], ...]
    """Cells, one tuple a row."""
    note: str = ""
    """How to read it."""


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table that has rows for these runs."""
    tables = [
        final_scores(groups),
        ablation(groups),
        interventions(groups),
        interventions_by_trial(groups),
        phases(groups),
        best_programs(groups),
    ]
    return [table for table in tables if table.rows]


def final_scores(groups: Sequence[Group]) -> Table:
    """The paper's Table 2: initial and final score per method, on the seeds that no program was chosen by."""
    rows = []
    for group in groups:
        finals, initials = _scores(group, "best"), _scores(group, "initial")
        if finals and initials:
            gain = 1 - _mean(finals) / _mean(initials) if _mean(initials) else math.nan
            rows.append(
                (
                    group.label,
                    _env(group),
                    str(len(group.runs)),
                    _mean_spread(initials),
                    _mean_spread(finals),
                    f"{gain:.1%}",
                    "held-out" if _held_out(group) else "training",
                )
            )
    return Table(
        "final_scores",
        "Final performance",
        ("Method", "Environment", "Runs", "Initial", "Final", "Improvement", "Seeds"),
        tuple(rows),
        "Mean ± standard deviation over runs. Improvement is the share of the initial loss that is gone. "
        "Held-out seeds chose no program; training seeds stand in while a run is unconfirmed.",
    )


def ablation(groups: Sequence[Group]) -> Table:
    """The paper's Table 4: final score by configuration and environment, the components added one by one."""
    cells: dict[str, dict[str, list[float]]] = {}
    for group in groups:
        method = str(group.runs[0].setting("method", ""))
        cells.setdefault(method, {}).setdefault(_env(group), []).extend(_scores(group, "best"))
    environments = list(dict.fromkeys(_env(group) for group in groups))
    # Groups that differ in more than method and environment (a sweep) are no ablation of the components.
    comparable = len({(g.runs[0].setting("method"), _env(g)) for g in groups}) == len(groups)
    rows = tuple(
        (name, *(_mean_spread(cells[method].get(env, [])) for env in environments))
        for method, name in _METHOD_NAMES.items()
        if method in cells
    )
    return Table(
        "ablation", "Ablation", ("Configuration", *environments), rows if comparable and len(rows) > 1 else ()
    )


def interventions(groups: Sequence[Group]) -> Table:
    """The paper's Table 3: how often the strategist changed what, and the gate accepted."""
    rows = []
    for group in groups:
        counts = [_count_interventions(run) for run in group.runs if run.tuned_phases]
        if counts:
            rates = [_mean([c[key] / c["phases"] for c in counts]) for key in (*_CONTROLS, "accepted")]
            rows.append((group.label, _env(group), *(f"{rate:.1%}" for rate in rates)))
    return Table(
        "interventions",
        "Supporters' intervention rates",
        ("Method", "Environment", *_CONTROLS.values(), "Gate accepted"),
        tuple(rows),
        "Share of the fine-tuning phases in which the strategist changed a setting, and in which the "
        "reference moved; mean over runs.",
    )


def interventions_by_trial(groups: Sequence[Group]) -> Table:
    """The paper's Table 5: the same for every run."""
    rows = []
    for group in groups:
        for run in (run for run in group.runs if run.tuned_phases):
            counts = _count_interventions(run)
            cells = (_of(counts[key], counts["phases"]) for key in (*_CONTROLS, "accepted"))
            rows.append((group.label, str(run.setting("seed", "")), *cells))
    return Table(
        "interventions_by_trial",
        "Interventions by run",
        ("Method", "Seed", *_CONTROLS.values(), "Gate accepted"),
        tuple(rows),
    )


def phases(groups: Sequence[Group]) -> Table:
    """What each fine-tuning phase did, by the probe before and after it and by the gate."""
    rows = []
    for run in _runs(groups):
        for phase in run.tuned_phases:
            before, after = (run.probes.get((phase["phase"], m)) for m in ("before", "after"))
            rows.append(
                (
                    run.name,
                    str(phase["phase"]),
                    str(phase["round"]),
                    str(phase.get("pairs", "–")),
                    *(_change(before, after, key) for key in ("valid", "new", "improving")),
                    _optional(phase["kl"], ".3f"),
                    _optional(phase["gain"], "+.4f"),
                    "promoted" if phase["promoted"] else "kept",
                )
            )
    columns = ("Run", "Phase", "After round", "Pairs", "Valid", "New", "Improving", "KL", "Gain", "Reference")
    return Table(
        "phases",
        "Fine-tuning phases",
        columns,
        tuple(rows),
        "Shares of fresh samples on fixed prompts before → after the phase, ± standard error over prompts; "
        "KL in nats per token.",
    )


def best_programs(groups: Sequence[Group], limit: int = 5) -> Table:
    """The best different programs of every run."""
    rows = []
    for run in _runs(groups):
        fresh = [c for c in run.candidates if c.passed and c.duplicate_of is None]
        for record in sorted(fresh, key=lambda c: (-(c.score or 0.0), c.id))[:limit]:
            held_out = run.held_out_scores(record)
            rows.append(
                (
                    run.name,
                    str(record.id),
                    str(record.round),
                    str(record.island),
                    record.origin,
                    f"{record.score:.4f}",
                    _mean_spread(held_out) if held_out else "–",
                )
            )
    columns = ("Run", "Candidate", "Round", "Island", "Origin", "Training seeds", "Held-out seeds")
    return Table("best_programs", "Best programs", columns, tuple(rows))


def _count_interventions(run: RunData) -> dict[str, int]:
    changes = [name for phase in run.tuned_phases for name in phase.get("changed_controls", ())]
    return {
        **{name: changes.count(name) for name in _CONTROLS},
        "accepted": sum(bool(phase["promoted"]) for phase in run.tuned_phases),
        "phases": len(run.tuned_phases),
    }


def _held_out(group: Group) -> bool:
    return all(run.confirmed for run in group.runs)


def _scores(group: Group, which: Literal["initial", "best"]) -> list[float]:
    held_out = _held_out(group)
    records = [(run, run.initial if which == "initial" else run.best) for run in group.runs]
    return [
        _mean(run.held_out_scores(record)) if held_out else _number(record.score)
        for run, record in records
        if record is not None
    ]


def _runs(groups: Iterable[Group]) -> list[RunData]:
    return [run for group in groups for run in group.runs]


def _env(group: Group) -> str:
    return str(group.runs[0].setting("env", "unknown"))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _optional(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _mean_spread(values: Sequence[float]) -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.4f}"
    mean = _mean(values)
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return f"{mean:.4f} ± {spread:.4f}"


def _of(count: int, total: int) -> str:
    return f"{count}/{total} ({count / total:.0%})"


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, key: str) -> str:
    if before is None or after is None:
        return "–"
    return f"{_share(before[key])} → {_share(after[key])}"


def _share(share: Mapping[str, float]) -> str:
    return f"{share['value']:.2f}±{share['error']:.2f}"
