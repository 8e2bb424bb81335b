"""A study from its plan: `atlas study methods --workers 2`.

The runs go to `runs/study-NAME/`, one folder each, and are resumed if the command is given again. What those that have
come to their end came to is printed as tables, and written beside them: `runs.csv`, `instances.csv` and a picture. Of a
folder with such data (`atlas study docs/study/methods`) tables and picture are made again.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from atlas_gym.arguments import Parser, at_least_one
from atlas_gym.experiments.report.table_formats import as_markdown
from atlas_gym.experiments.shipped import find
from atlas_gym.experiments.studies.plan import read_plan
from atlas_gym.experiments.studies.results import (
    add,
    by_task,
    collect,
    draw,
    known_runs,
    read_data,
    summaries,
    write_data,
)
from atlas_gym.experiments.studies.scheduler import do_runs
from atlas_gym.text import clean
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import StoreError


def main(arguments: list[str] | None = None) -> int:
    """Do the study; returns the exit code (0 done, 1 a run failed or none has ended, 2 asked wrongly)."""
    parser = Parser(prog="atlas study", description=__doc__)
    parser.add_argument("plan", help="a plan: a YAML file or the name of a shipped one; or a folder of data")
    parser.add_argument("--workers", type=at_least_one, default=1, help="runs at a time")
    parser.add_argument("--runs", type=Path, help="where the runs lie; default: runs/study-NAME")
    parser.add_argument("--output", type=Path, help="where data and picture go; default: beside the runs")
    parser.add_argument(
        "--add", action="store_true", help="do only the runs that the output has no data of, and add theirs"
    )
    parser.add_argument("--tables", action="store_true", help="run nothing: what has been done so far")
    parser.add_argument("--measure", default="improvement", help="column of runs.csv; default: improvement")
    parser.add_argument("--against", default="", help="the arm to compare with; default: the first")
    options = parser.parse_args(arguments)
    try:
        if Path(options.plan).is_dir():
            failed, output = False, Path(options.plan)
        else:
            failed, output = _do(options)
        _show(output, options.measure, options.against)
    except (SettingsError, StoreError, ValueError) as error:
        print(f"Error: {clean(str(error), 5000)}", file=sys.stderr)
        return 2
    return int(failed)


def _do(options: argparse.Namespace) -> tuple[bool, Path]:
    """Do the runs and write their data; returns whether one failed, and where the data are."""
    plan = read_plan(find("studies", options.plan))
    folder = options.runs or Path("runs") / f"study-{plan.name}"
    output = options.output or folder
    old = read_data(output) if options.add else {}
    tell = partial(print, flush=True)
    failed = [] if options.tables else do_runs(plan, folder, options.workers, tell, known_runs(old))
    for path in write_data(add(old, collect(plan, folder)), output):
        print(path)
    return bool(failed), output


def _show(folder: Path, measure: str, against: str) -> None:
    runs = read_data(folder).get("runs")
    if runs is None:
        raise StoreError(f"no run has ended yet, and {folder} has no runs.csv of earlier ones")
    values = by_task(runs, measure)
    for table in summaries(values, against, ".1f" if measure == "improvement" else ".3g"):
        print(f"\n{as_markdown(table)}", end="")
    print(draw(values, "improvement, %" if measure == "improvement" else measure, folder / f"{measure}.png"))


if __name__ == "__main__":
    sys.exit(main())
