"""A study from its plan: `atlas study bandit`.

The runs go to `runs/study-NAME/`, one folder each, and are resumed if the command is given again; the data and the
tables go to `docs/study/NAME/`. `--tables` only collects what the runs have come to so far; where there
are none it makes the tables and the page of the data in `docs/study/NAME/`. `--add` goes on from these data on another
machine.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from atlas_gym.arguments import Parser, at_least_one
from atlas_gym.experiments.shipped import find
from atlas_gym.experiments.studies.plan import do_runs, read_plan
from atlas_gym.experiments.studies.write import known_runs, write_study
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import StoreError


def main(arguments: list[str] | None = None) -> int:
    """Do the study; returns the exit code (0 done, 1 a run failed or none has ended, 2 asked wrongly)."""
    options = _parser().parse_args(arguments)
    try:
        return _study(options)
    except (SettingsError, StoreError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2


def _study(options: argparse.Namespace) -> int:
    plan = read_plan(find("studies", options.plan))
    folder = options.runs or Path("runs") / f"study-{plan.name}"
    output = options.output or Path("docs/study") / plan.name
    known = known_runs(output) if options.add else ()
    tell = partial(print, flush=True)
    failed = [] if options.tables else do_runs(plan, folder, options.workers, tell, known)
    paths = write_study(plan, folder, output, options.add, options.plan)
    for path in paths:
        print(path)
    if not paths:
        print(
            f"Error: no run in {folder} has ended, and {output} has no data of earlier ones", file=sys.stderr
        )
    return 1 if failed or not paths else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="atlas study", description=__doc__)
    parser.add_argument("plan", help="the plan: a YAML file, or the name of one that comes with the package")
    parser.add_argument("--workers", type=at_least_one, default=1, help="runs at a time")
    parser.add_argument("--runs", type=Path, help="where the runs lie; default: runs/study-NAME")
    parser.add_argument("--output", type=Path, help="where data and tables go; default: docs/study/NAME")
    parser.add_argument("--tables", action="store_true", help="run nothing, collect only")
    parser.add_argument(
        "--add",
        action="store_true",
        help="do only the runs that the output has no data of, and add theirs to it",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
