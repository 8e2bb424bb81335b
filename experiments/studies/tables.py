"""A study's tables in the paper's shape (its Tables 2 to 5), from rows.

Everything is a mean over seeds ± its standard error; a single seed has none.
"""

import math
from collections.abc import Iterable, Sequence

from experiments.report.tables import Table
from experiments.studies.rows import CONTROLS, Row


def final_scores(runs: Sequence[Row]) -> Table:
    """Table 2: initial and final held-out score of each arm and start."""
    rows = [
        (
            arm,
            start,
            str(len(own)),
            mean_error([row["initial_held_out"] for row in own]),
            mean_error([row["best_held_out"] for row in own]),
            percent_error([row["improvement"] for row in own]),
            mean_error([float(row["evaluations"]) for row in own], ".0f"),
        )
        for (arm, start), own in _groups(runs, "arm", "start")
    ]
    columns = ("Method", "Start", "Seeds", "Initial", "Best", "Improvement", "Evaluations")
    note = "Held-out seeds that chose no program; improvement is the share of the initial program's loss that is gone."
    return Table("final_scores", "Best program on held-out seeds", columns, tuple(rows), note)


def ablation(runs: Sequence[Row]) -> Table:
    """Table 4: improvement by arm, one column a start."""
    starts = list(dict.fromkeys(row["start"] for row in runs))
    rows = tuple(
        (arm, *(percent_error([r["improvement"] for r in own if r["start"] == start]) for start in starts))
        for (arm,), own in _groups(runs, "arm")
    )
    return Table("ablation", "Improvement by method and start", ("Method", *starts), rows)


def interventions(runs: Sequence[Row]) -> Table:
    """Table 3: how often the strategist changed what, and how often the reference moved."""
    rows = [
        (arm, start, str(sum(r["phases"] for r in own)), *_rates(own))
        for (arm, start), own in _groups([r for r in runs if r["phases"]], "arm", "start")
    ]
    note = "Share of the tuning phases of all seeds. Without a gate the reference rule decides what moves."
    return Table(
        "interventions", "Strategist and inspector", ("Method", "Start", "Phases", *_RATES), tuple(rows), note
    )


def interventions_by_run(runs: Sequence[Row]) -> Table:
    """Table 5: the same run by run, where there is a strategist or a gate to ask."""
    rows = [
        (row["arm"], row["start"], str(row["seed"]), *_counts(row))
        for row in runs
        if row["phases"] and row["arm"].startswith("atlas")
    ]
    return Table("interventions_by_run", "Run by run", ("Method", "Start", "Seed", *_RATES), tuple(rows))


def shares(runs: Sequence[Row], rounds: Sequence[Row]) -> Table:
    """Valid and different programs: over the whole run, and in its first and last third."""
    rows = []
    for (arm, start), own in _groups(runs, "arm", "start"):
        per_round = [r for r in rounds if (r["arm"], r["start"]) == (arm, start) and r["round"] > 0]
        last = max(r["round"] for r in per_round)
        early = [r for r in per_round if r["round"] <= last / 3]
        late = [r for r in per_round if r["round"] > last * 2 / 3]
        cells = (
            f"{_mean_of(part, key):.2f}"
            for key in ("valid_share", "distinct_share")
            for part in (early, late)
        )
        rows.append((arm, start, *cells, mean_error([float(r["distinct"]) for r in own], ".0f")))
    columns = (
        "Method",
        "Start",
        "Valid, first third",
        "last third",
        "New, first third",
        "last third",
        "Different",
    )
    note = "New: runs, is not its parent, and was not seen before in the run; shares of the candidates of a round."
    return Table("shares", "Valid and different programs", columns, tuple(rows), note)


def origins(rows: Sequence[Row]) -> Table:
    """Who wrote what: the same measures by origin."""
    cells = tuple(
        (
            arm,
            start,
            origin,
            str(sum(r["candidates"] for r in own)),
            f"{_mean_of(own, 'valid_share'):.2f}",
            f"{sum(r['better_than_parent'] for r in own) / sum(r['candidates'] for r in own):.3f}",
            mean_error([r["best_training"] for r in own if r["best_training"] is not None]),
        )
        for (arm, start, origin), own in _groups(rows, "arm", "start", "origin")
    )
    columns = ("Method", "Start", "Origin", "Candidates", "Valid", "Better than parent", "Best (training)")
    return Table("origins", "By origin", columns, cells)


def probes(rows: Sequence[Row]) -> Table:
    """Whether tuning made improving edits more frequent on prompts it was not tuned on, numbers and structure
    apart."""
    found = {(r["arm"], r["start"], r["seed"], _where(r), r["kind"], r["moment"] in _FIRST): r for r in rows}
    cells = tuple(
        (
            *map(str, key),
            f"{after['prompts']} × {after['samples'] // max(1, after['prompts'])}",
            *(
                f"{_with_error(before, name)} → {_with_error(after, name)}"
                for name in ("valid", "new", "improving")
            ),
            f"{before['distinct_improving']} → {after['distinct_improving']}",
        )
        for *key, first in found
        if first and (before := found[*key, True]) and (after := found.get((*key, False)))
    )
    columns = (
        "Method", "Start", "Seed", "When", "Holes", "Prompts × samples", "Valid", "New", "Improving",
        "Different improving",
    )  # fmt: skip
    note = (
        "Fresh samples before → after a phase, or of base model → tuned policy on a task that came after the last "
        "phase; same prompts and seeds, ± standard error over prompts."
    )
    return Table("probes", "What tuning changed", columns, cells, note)


_FIRST = ("before", "base")


def _where(row: Row) -> str:
    return "unseen task" if row["moment"] in ("base", "tuned") else f"phase {row['phase']}"


def _with_error(row: Row, name: str) -> str:
    return f"{row[f'{name}_value']:.3f} ± {row[f'{name}_error']:.3f}"


def mean_error(values: Sequence[float], form: str = ".4f") -> str:
    """Mean ± standard error."""
    if not values:
        return "–"
    mean = sum(values) / len(values)
    if len(values) < 2:
        return format(mean, form)
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    return f"{mean:{form}} ± {error:{form}}"


def percent_error(values: Sequence[float]) -> str:
    """The same in per cent."""
    text = mean_error([100 * v for v in values], ".1f")
    return text if text == "–" else f"{text} %"


_RATES = ("Threshold", "β", "Epochs", "Learning rate", "Reference moved")
_KEYS = (*(f"changed_{name}" for name in CONTROLS), "promoted")


def _rates(rows: Sequence[Row]) -> list[str]:
    phases = sum(row["phases"] for row in rows)
    return [f"{sum(row[key] for row in rows) / phases:.0%}" for key in _KEYS]


def _counts(row: Row) -> list[str]:
    return [f"{row[key]}/{row['phases']}" for key in _KEYS]


def _mean_of(rows: Sequence[Row], key: str) -> float:
    return sum(row[key] for row in rows) / len(rows) if rows else math.nan


def _groups(rows: Iterable[Row], *keys: str) -> list[tuple[tuple, list[Row]]]:
    """Rows by the values of some columns: all arms of a start, then those of the next, as the plan has them."""
    found: dict[tuple, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    starts = list(dict.fromkeys(key[1:2] for key in found))
    return sorted(found.items(), key=lambda item: starts.index(item[0][1:2]))
