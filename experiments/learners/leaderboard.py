"""The leaderboard: every learner on the same tasks, with the same model and the same number of candidates.

    python -m experiments.learners.leaderboard --budget 200 --seeds 3
    python -m experiments.learners.leaderboard --folder runs/leaderboard --publish docs/leaderboard

A row is one learner, one task and one seed. Its seed also draws the training task, so rows of one seed are compared on
the same instance; what it submits is scored on the same held-out tasks as everybody's. A finished row is a file
(`row.json` in a folder of its own) and is not done again, so an interrupted leaderboard goes on where it was, and
several processes can share the work by naming different learners. Tables, figures and the page are made of the rows in
the folder; they are written into it, or where `--publish` says.
"""

import argparse
import json
import re
import resource
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path

from experiments.learners.board import read_tables, write_tables
from experiments.learners.board_page import write_page
from experiments.learners.entries import ENTRIES
from experiments.learners.ledger import Trial
from experiments.learners.objective import confirm

TASKS = ("ATLAS-Bandit-v0", "ATLAS-BinPacking-v0")


def main(arguments: list[str] | None = None) -> int:
    """Do what is missing and write the tables; returns 1 if a row failed."""
    options = _parser().parse_args(arguments)
    failed = []
    for env_id, seed, name in _rows(options):
        trial = Trial(
            env_id, seed, options.budget, _place(options.folder, env_id, name, seed), options.environments
        )
        if _is_done(trial):
            continue
        print(f"{env_id}, seed {seed}, {name}", flush=True)
        try:
            do_row(name, trial, options.held_out)
        except (RuntimeError, ValueError, OSError) as error:
            failed.append(name)
            print(f"  failed: {error}", file=sys.stderr, flush=True)
    rows = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(options.folder.glob("*/row.json"))
    ]
    if rows:
        output = options.publish or options.folder
        write_tables(rows, output)
        write_page(read_tables(output), output)
    return 1 if failed else 0


def _is_done(trial: Trial) -> bool:
    """Whether the row is finished; SystemExit if with another budget, which could not be compared."""
    file = trial.folder / "row.json"
    if not file.exists():
        return False
    budget = json.loads(file.read_text(encoding="utf-8"))["budget"]
    if budget != trial.budget:
        sys.exit(f"{file} was made with a budget of {budget} candidates: name another --folder")
    return True


def do_row(name: str, trial: Trial, held_out: int) -> None:
    """One learner on one task with one seed; what a row that did not end has left is thrown away."""
    entry = ENTRIES[name]
    shutil.rmtree(trial.folder, ignore_errors=True)
    trial.folder.mkdir(parents=True)
    began, cpu = time.perf_counter(), _cpu_seconds()
    outcome = entry.learn(trial)
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - cpu
    row = {
        "task": trial.env_id, "learner": name, "seed": trial.seed, "version": entry.version, "what": entry.what,
        "budget": trial.budget, "seconds": round(seconds, 1), "cpu_seconds": round(cpu_seconds, 1),
        "changes": {setting: asdict(change) for setting, change in entry.changes(trial).items()},
        "held_out": confirm(trial.env_id, outcome.program, held_out), **asdict(outcome),
    }  # fmt: skip
    temporary = trial.folder / "row.tmp"
    temporary.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    temporary.replace(trial.folder / "row.json")


def _cpu_seconds() -> float:
    """Of this process and of all that it started and saw end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _rows(options: argparse.Namespace) -> list[tuple[str, int, str]]:
    """Every row, the seeds outermost: a leaderboard that is cut short has all learners with fewer seeds."""
    return [
        (env_id, seed, name)
        for seed in range(options.seeds)
        for env_id in options.tasks
        for name in options.learners
    ]


def _place(folder: Path, env_id: str, name: str, seed: int) -> Path:
    words = re.sub(r"[^a-z0-9]+", "-", f"{env_id.removeprefix('ATLAS-')} {name}".lower())
    return (folder / f"{words}-s{seed}").absolute()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.learners.leaderboard", description=__doc__)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), help="default: %(default)s")
    parser.add_argument(
        "--learners", nargs="*", choices=ENTRIES, default=list(ENTRIES), metavar="NAME",
        help=f"some of {', '.join(ENTRIES)} (default: all; none: only write the tables)",
    )  # fmt: skip
    parser.add_argument("--budget", type=int, default=200, help="candidates of each row (default 200)")
    parser.add_argument("--seeds", type=int, default=3, help="rows of each learner and task (default 3)")
    parser.add_argument("--held-out", type=int, default=16, help="held-out tasks (default 16)")
    parser.add_argument("--folder", type=Path, default=Path("runs/leaderboard"), help="of the rows")
    parser.add_argument(
        "--environments", type=Path, default=Path("runs/peers"), help="of other projects' learners"
    )
    parser.add_argument("--publish", type=Path, help="folder for the tables; default: beside the rows")
    return parser


if __name__ == "__main__":
    sys.exit(main())
