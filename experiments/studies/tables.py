"""What a study's tables have beside the paper's four (`experiments.report.tables`), from its rows."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from atlas_gym.experiments.report.table_formats import Table, table
from atlas_gym.experiments.report.tables import OVER_SEEDS, Row, groups_of, mean_error
from atlas_gym.intervals import mean_interval


def comparisons(runs: pd.DataFrame) -> Table:
    """Every method against the first one of the same start, seed by seed, and in words whether they are told apart."""
    note = "Improvement in percentage points, paired by seed, 95 % interval (Student's t)."
    return table("comparisons", "Against the first method", _differences(runs, "seed"), note)


def by_instance(instances: pd.DataFrame) -> Table:
    """The same by instance: each the mean over the seeds that both methods have."""
    note = (
        "Improvement in percentage points, paired by instance, of several seeds their mean; 95 % interval over "
        "instances (Student's t): over what was posed, not over runs, which share all that they learn."
    )
    rows = _differences(instances, "instance")
    return table("by_instance", "Against the first method, by instance", rows, note)


def _differences(rows: pd.DataFrame, over: str) -> Iterator[Mapping[str, str]]:
    for (start,), own in groups_of(rows, "start"):
        keys = list(dict.fromkeys([over, "seed"]))
        values = own.pivot_table(index=keys, columns="arm", values="improvement")
        # Without an improvement, where a start has nothing to lose, an arm has no column.
        values = values.reindex(columns=own.arm.unique())
        first, *others = values.columns
        for arm in others:
            differences = 100 * (values[arm] - values[first]).dropna().groupby(over).mean()
            if len(differences) > 1:
                found = mean_interval(differences)
                yield {
                    "Method": arm, "Start": start, "Against": first, f"{over.title()}s": str(len(differences)),
                    "Difference, points": f"{found:+.1f}",
                    "In words": found.in_words("better", "worse", "not told apart"),
                }  # fmt: skip


def speed(curves: pd.DataFrame) -> Table:
    """After how many programs every method is as good as the first one at its end, seed by seed."""
    rows = []
    for (start,), own in groups_of(curves, "start"):
        first, *others = own.arm.unique()
        goals = own[own.arm == first].groupby("seed").best_training.max()
        itself, *reached = (_reached(own[own.arm == arm], goals) for arm in (first, *others))
        for arm, found in zip(others, reached, strict=True):
            shares = found / itself[found.index]
            rows.append({
                "Method": arm, "Start": start, "Against": first,
                "Passed in": f"{shares.notna().sum()} of {len(shares)}",
                "Programs": ", ".join("never" if pd.isna(n) else f"{n:.0f}" for n in found),
                f"{first} itself": ", ".join(f"{n:.0f}" for n in itself[found.index]), "Share": _geometric(shares),
            })  # fmt: skip
    note = (
        "Different programs evaluated, by seed, until the best training score (of several instances their mean) is the "
        "first method's last one; share: geometric mean over seeds with its 95 % interval, where all seeds passed."
    )
    return table("speed", "Programs until the first method's last score", rows, note)


def _reached(curves: pd.DataFrame, goals: pd.Series) -> pd.Series:
    """Programs until each seed's goal; NaN if it never was reached."""
    passed = curves[curves.best_training >= curves.seed.map(goals)]
    return passed.groupby("seed").evaluations.min().reindex(sorted({*curves.seed} & {*goals.index}))


def _geometric(ratios: pd.Series) -> str:
    if ratios.isna().any() or not len(ratios):
        return "–"
    found = mean_interval(np.log(ratios))
    mean = f"{np.exp(found.mean):.2f}"
    return f"{mean} [{np.exp(found.low):.2f}, {np.exp(found.high):.2f}]" if len(ratios) > 1 else mean


def shares(runs: pd.DataFrame, rounds: pd.DataFrame) -> Table:
    """Valid and different programs: over the whole run, and in its first and last third."""
    rows = []
    for (arm, start), own in groups_of(runs, "arm", "start"):
        explored = rounds[(rounds.arm == arm) & (rounds.start == start) & (rounds["round"] > 0)]
        last = explored["round"].max()
        thirds = (explored[explored["round"] <= max(1, last / 3)], explored[explored["round"] > last * 2 / 3])
        cells = [f"{part[key].mean():.2f}" for key in ("valid_share", "distinct_share") for part in thirds]
        rows.append((arm, start, *cells, mean_error(own.distinct, ".0f")))
    columns = (
        "Method", "Start", "Valid, first third", "last third", "Distinct, first third", "last third",
        "Distinct in the run",
    )  # fmt: skip
    note = (
        "Shares of the candidates of a round; distinct: valid, not its parent, and not seen before in the run. "
        + OVER_SEEDS
    )
    return Table("shares", "Valid and distinct programs", columns, tuple(rows), note)


def origins(rows: pd.DataFrame) -> Table:
    """Who wrote what: the same measures by origin."""
    cells = (
        {
            "Method": arm, "Start": start, "Origin": origin, "Candidates": str(own.candidates.sum()),
            "Valid": f"{own.valid_share.mean():.2f}",
            "Better than parent": f"{own.better_than_parent.sum() / own.candidates.sum():.3f}",
            "Best (training)": mean_error(own.best_training.dropna()),
        }
        for (arm, start, origin), own in groups_of(rows, "arm", "start", "origin")
    )  # fmt: skip
    note = " Best (training): the highest score on any instance, which of several is the easiest one's."
    return table("origins", "By origin", cells, OVER_SEEDS + note)


def learning(rows: pd.DataFrame) -> Table:
    """The agent alone on instances that no phase saw: base model against the policy after a run's last phase."""
    if len(rows):
        rows = rows[rows.phase == rows.groupby(["arm", "start", "seed"]).phase.transform("max")]
    cells = []
    for (start, measure), own in groups_of(rows, "start", "measure"):
        tuned = own.pivot(index="seed", columns="arm", values="tuned")[own.arm.unique()]
        base = own.base.mean()  # the same questions under the same seeds in every run
        for arm in tuned:
            values = tuned[arm].dropna()
            against = "" if arm == tuned.columns[0] else _interval(values - tuned.iloc[:, 0])
            ratio = _geometric(values / base) if base and values.all() else "–"
            measured = own[(own.arm == arm) & own.seed.isin(values.index)]
            within = [f"{row.difference:+.3f} ± {row.half_width:.3f}" for row in measured.itertuples()]
            cells.append({
                "Measure": measure, "Start": start, "Method": arm, "Seeds": str(len(values)), "Base": f"{base:.3f}",
                "Tuned": _interval(values), "Tuned / base": ratio,
                "One seed: less base": within[0] if len(within) == 1 else "",
                f"Less {tuned.columns[0]}": against,
            })  # fmt: skip
    note = (
        "Quality: improving by more than the margin, of what is valid and new; yield: distinct improving programs per "
        "sample; best of 8: mean best gain, in units of score. 95 % intervals over seeds (Student's t; of ratios, of "
        "their logarithms): over what was trained on, not over the questions, which all seeds share. Of one seed: "
        "the difference to the base model with its 95 % interval over instances."
    )
    return table("learning", "The agent alone, on instances that no phase saw", cells, note)


def _interval(values: pd.Series) -> str:
    if not len(values := values.dropna()):
        return "–"
    return f"{mean_interval(values):.3f}" if len(values) > 1 else f"{values.mean():.3f}"


_FIRST = ("before", "base")


def _where(row: Row) -> str:
    return "unseen task" if row["moment"] in ("base", "tuned") else f"phase {row['phase']}"


def _with_error(row: Row, name: str) -> str:
    return f"{row[f'{name}_value']:.3f} ± {row[f'{name}_error']:.3f}"
