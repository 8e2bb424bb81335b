"""What a study's tables have beside the paper's four (`experiments.report.tables`), from its rows."""

import pandas as pd

from atlas_gym.intervals import mean_interval
from experiments.report.rows import Row
from experiments.report.tables import OVER_SEEDS, Table, groups_of, mean_error


def comparisons(runs: pd.DataFrame) -> Table:
    """Every method against the first one of the same start, seed by seed, and in words whether they are told apart."""
    rows = []
    for (start,), own in groups_of(runs, "start"):
        by_seed = own.pivot(index="seed", columns="arm", values="improvement")[own.arm.unique()]
        first, *others = by_seed.columns
        for arm in others:
            differences = 100 * (by_seed[arm] - by_seed[first]).dropna()
            if len(differences) > 1:
                found = mean_interval(differences)
                text = f"{found.mean:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"
                rows.append((arm, start, first, str(len(differences)), text, _word(found.low, found.high)))
    columns = ("Method", "Start", "Against", "Seeds", "Difference, points", "In words")
    note = "Improvement in percentage points, paired by seed, 95 % interval (Student's t)."
    return Table("comparisons", "Against the first method", columns, tuple(rows), note)


def _word(low: float, high: float) -> str:
    if low <= 0 <= high:
        return "not told apart"
    return "better" if low > 0 else "worse"


def shares(runs: pd.DataFrame, rounds: pd.DataFrame) -> Table:
    """Valid and different programs: over the whole run, and in its first and last third."""
    rows = []
    for (arm, start), own in groups_of(runs, "arm", "start"):
        explored = rounds[(rounds.arm == arm) & (rounds.start == start) & (rounds["round"] > 0)]
        last = explored["round"].max()
        thirds = (explored[explored["round"] <= last / 3], explored[explored["round"] > last * 2 / 3])
        cells = (f"{part[key].mean():.2f}" for key in ("valid_share", "distinct_share") for part in thirds)
        rows.append((arm, start, *cells, mean_error(own.distinct, ".0f")))
    columns = (
        "Method",
        "Start",
        "Valid, first third",
        "last third",
        "Distinct, first third",
        "last third",
        "Distinct in the run",
    )
    note = (
        "Shares of the candidates of a round; distinct: valid, not its parent, and not seen before in the run. "
        + OVER_SEEDS
    )
    return Table("shares", "Valid and distinct programs", columns, tuple(rows), note)


def origins(rows: pd.DataFrame) -> Table:
    """Who wrote what: the same measures by origin."""
    cells = tuple(
        (
            arm,
            start,
            origin,
            str(own.candidates.sum()),
            f"{own.valid_share.mean():.2f}",
            f"{own.better_than_parent.sum() / own.candidates.sum():.3f}",
            mean_error(own.best_training.dropna()),
        )
        for (arm, start, origin), own in groups_of(rows, "arm", "start", "origin")
    )
    columns = ("Method", "Start", "Origin", "Candidates", "Valid", "Better than parent", "Best (training)")
    return Table("origins", "By origin", columns, cells, OVER_SEEDS)


def probes(rows: pd.DataFrame) -> Table:
    """Whether tuning made improving edits more frequent on prompts it was not tuned on, numbers and structure
    apart."""
    found = {
        (r["arm"], r["start"], r["seed"], _where(r), r["kind"], r["moment"] in _FIRST): r
        for r in rows.to_dict("records")
    }
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
        "Distinct improving",
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
