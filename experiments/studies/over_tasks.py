"""Methods over several studies that have the same arms: `python -m atlas_gym.experiments.studies.over_tasks FOLDER …`.

Each folder has a study's data (`docs/study/NAME`). A method's improvement on a task is the mean over its seeds; over
tasks it is compared with the first method of the first study, or with the one that is named, paired by task.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from atlas_gym.arguments import Parser
from atlas_gym.experiments.report.table_formats import Table, as_markdown, table, told_interval
from atlas_gym.experiments.report.tables import percent_error
from atlas_gym.experiments.studies.write import read_data
from atlas_gym.trainers.store.store import StoreError

_NOTE = (
    "Improvement on held-out tasks, ± standard error over seeds; difference: percentage points, mean over tasks of the "
    "differences paired by seed, 95 % interval over tasks (Student's t)."
)


def over_tasks(studies: Mapping[str, pd.DataFrame], against: str = "") -> Table:
    """One row a method, one column a study, and the difference to one method over all of them.

    Args:
        studies: the rows of `runs.csv` by the study's name; a study has one start.
        against: the method that the others are compared with; empty: the first one.

    Raises:
        ValueError: there is no such method, or a study has several starts.
    """
    for name, runs in studies.items():
        if runs.duplicated(["arm", "seed"]).any():
            raise ValueError(f"{name} has several starts; compare studies that have one each")
    by_seed = {
        name: 100 * runs.pivot(index="seed", columns="arm", values="improvement")
        for name, runs in studies.items()
    }
    arms = list(next(iter(studies.values())).arm.unique())
    against = against or arms[0]
    if against not in arms:
        raise ValueError(f"no method {against!r}; there are {', '.join(arms)}")
    rows = []
    for arm in arms:
        cells = {
            name: percent_error(found[arm].dropna() / 100) if arm in found else "–"
            for name, found in by_seed.items()
        }
        both = [found for found in by_seed.values() if arm in found and against in found]
        known = pd.Series([(found[arm] - found[against]).mean() for found in both]).dropna()
        difference = "" if arm == against else told_interval(known, "+.1f", "tasks")
        rows.append({"Method": arm, **cells, f"Less {against}": difference})
    return table("over_tasks", "Methods over tasks", rows, _NOTE)


def read_runs(folder: Path) -> pd.DataFrame:
    """A study's rows of runs; raises `StoreError` if they are missing or damaged."""
    data = read_data(folder)
    if "runs" not in data:
        raise StoreError(f"{folder} has no runs.csv; `atlas study NAME` makes it")
    return data["runs"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table as Markdown."""
    parser = Parser(prog="python -m atlas_gym.experiments.studies.over_tasks", description=__doc__)
    parser.add_argument(
        "folders", type=Path, nargs="+", help="folders of studies' data, with a runs.csv each"
    )
    parser.add_argument("--against", default="", help="the method to compare with; default: the first one")
    options = parser.parse_args(arguments)
    try:
        studies = {folder.name: read_runs(folder) for folder in options.folders}
        print(as_markdown(over_tasks(studies, options.against)))
    except (StoreError, ValueError) as error:
        raise SystemExit(f"Error: {error}") from error


if __name__ == "__main__":
    main()
