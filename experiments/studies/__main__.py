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
from atlas_gym.experiments.shipped import find
from atlas_gym.experiments.studies.plan import PlannedRun, read_plan
from atlas_gym.text import clean
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.rows import StoreError

TABLES = {
    "By task": "Mean over seeds, and of the differences paired by seed, with 95 % intervals (Student's t).",
    "Over tasks": "Mean over tasks of the differences paired by seed, with its 95 % interval over seeds (Student's t).",
    "Beside the better control": "The control with the higher mean on each task; differences are paired by seed, with "
    "95 % intervals.",
    "Beside the controls of each run": "Ahead and behind: runs whose 95 % interval over instances leaves out 0. "
    "Difference in score: mean over runs with its 95 % interval. `unseen`: the tuned model beside the base model, on "
    "instances that no phase saw.",
}
"""Titles of the tables, and what is said below them."""


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
    parser.add_argument(
        "--controls",
        nargs="*",
        default=(),
        help="arms of which the first is to beat the better one on each task",
    )
    options = parser.parse_args(arguments)
    try:
        return int(_study(options))
    except (SettingsError, StoreError, ValueError) as error:
        print(f"Error: {clean(str(error), 5000)}", file=sys.stderr)
        return 2


def _study(options: argparse.Namespace) -> bool:
    """Do the runs, write their data and show them; True if a run failed."""
    from atlas_gym.experiments.studies import results
    from atlas_gym.experiments.studies.scheduler import do_runs

    output = Path(options.plan)
    failed: list[PlannedRun] = []
    if not output.is_dir():
        plan = read_plan(find("studies", options.plan))
        folder = options.runs or Path("runs") / f"study-{plan.name}"
        output = options.output or folder
        old = results.read_data(output) if options.add else {}
        if not options.tables:
            tell = partial(print, flush=True)
            failed = do_runs(plan, folder, options.workers, tell, results.known_runs(old))
        for path in results.write_data(results.add(old, results.collect(plan, folder)), output):
            print(path)
    data = results.read_data(output)
    runs = data.get("runs")
    if runs is None:
        raise StoreError(f"no run has ended yet, and {output} has no runs.csv of earlier ones")
    measure, form = options.measure, ".1f" if options.measure == "improvement" else ".3g"
    values = results.by_task(runs, measure)
    tables = [*results.summaries(values, options.against, form, options.controls)]
    tables += [results.control_table(data["controls"])] if "controls" in data else []
    for frame, (title, note) in zip(tables, TABLES.items(), strict=False):
        if len(frame):
            print(f"\n{results.as_markdown(frame, title, note)}", end="")
    label = "improvement, %" if measure == "improvement" else measure
    print(results.draw(values, label, output / f"{measure}.png"))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
