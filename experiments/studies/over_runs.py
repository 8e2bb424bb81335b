"""What a phase came to over several runs: `python -m atlas_gym.experiments.studies.over_runs replays.csv`.

Reads what `experiments.studies.replays` wrote. Each variant of the phase is compared with the base model and with one
of the variants, both paired by run.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from atlas_gym.arguments import Parser
from atlas_gym.experiments.report.table_formats import Table, as_markdown, table, told_interval

BASE = "base model"

_NOTE = (
    "Means over runs; differences paired by run, 95 % interval over runs (Student's t). nats: mean log-probability of "
    "lines that are known to be good."
)


def over_runs(rows: pd.DataFrame, against: str = "") -> Table:
    """One row for each measure and variant.

    Args:
        rows: a row for each run and variant; runs whose variant had no pair count in none of its means.
        against: the variant that the others are compared with; empty: the first one.

    Raises:
        ValueError: there is no such variant, or nothing to compare.
    """
    variants = [name for name in rows.variant.unique() if name != BASE]
    if not variants or BASE not in rows.variant.values:
        raise ValueError("there must be rows of the base model and of a variant")
    against = against or variants[0]
    if against not in variants:
        raise ValueError(f"no variant {against!r}; there are {', '.join(variants)}")
    found = [
        {
            "Measure": name,
            "Phase": variant,
            "Base model": f"{base.mean():.3f}",
            "Tuned": f"{of[variant].mean():.3f}",
            "Less base model": _interval(of[variant] - base),
            f"Less {against}": "" if variant == against else _interval(of[variant] - of[against]),
        }
        for name, base, of in _measures(rows)
        for variant in variants
    ]
    return table("over_runs", "Phases over runs", found, _NOTE)


def _measures(rows: pd.DataFrame) -> Iterator[tuple[str, pd.Series, pd.DataFrame]]:
    """Each measure's name, the base model's values by run, and each variant's."""
    if "nats" in rows:
        of = rows.pivot(index="run", columns="variant", values="nats")
        yield "nats", of[BASE], of
    for name in [name for name in rows if f"{name}, base" in rows]:
        base = rows.groupby("run")[f"{name}, base"].first()
        yield name, base, rows.pivot(index="run", columns="variant", values=name)


def _interval(differences: pd.Series) -> str:
    return told_interval(differences.dropna(), "+.3f", "runs")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table as Markdown."""
    parser = Parser(prog="python -m atlas_gym.experiments.studies.over_runs", description=__doc__)
    parser.add_argument("data", type=Path, help="what `replays --output` wrote")
    parser.add_argument("--against", default="", help="the variant to compare with; default: the first one")
    options = parser.parse_args(arguments)
    try:
        rows = pd.read_csv(options.data)
        rows[["run", "variant"]]  # without these columns it is something else
    except (OSError, LookupError, ValueError) as error:
        raise SystemExit(
            f"Error: {options.data} is not what `python -m atlas_gym.experiments.studies.replays --output` writes: {error}"
        ) from error
    try:
        print(as_markdown(over_runs(rows, options.against)))
    except ValueError as error:
        raise SystemExit(f"Error: {error}") from error


if __name__ == "__main__":
    main()
