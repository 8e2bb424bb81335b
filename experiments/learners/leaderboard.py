"""The leaderboard: every learner on the same tasks, with the same model and the same number of candidates.

    atlas leaderboard --list                       # the learners, and which rows are done; starts nothing
    atlas leaderboard --budget 200 --seeds 3
    atlas leaderboard --publish docs/leaderboard --replace

A row is one learner, one task and one seed. Its seed also draws the training task, so rows of one seed are compared on
the same instance; what it submits is scored on the same held-out tasks as everybody's. A finished row is a file
(`row.json` in a folder of its own) and is not done again, so an interrupted leaderboard goes on where it was, and
several processes can share the work by naming different learners. Tables, figures and the page are made of the rows in
the folder; they are written beside them, or where `--publish` says.

OpenEvolve, ShinkaEvolve and LLM4AD are installed at their first row, in the pinned versions and in environments of
their own; so is the embedded model. That is all that takes a network.
"""

import argparse
import json
import os
import re
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from atlas_gym import make_task
from atlas_gym.arguments import Parser, at_least_one, seconds
from atlas_gym.experiments.learners.board import read_tables, write_tables
from atlas_gym.experiments.learners.board_page import write_page
from atlas_gym.experiments.learners.entries import ENTRIES, START
from atlas_gym.experiments.learners.ledger import Trial, confirm
from atlas_gym.experiments.learners.peer import is_installed
from atlas_gym.tasks.constants import constants_from
from atlas_gym.trainers.store.plain import nearest

TASKS = ("ATLAS-Bandit-v0", "ATLAS-BinPacking-v0")


def main(arguments: list[str] | None = None) -> int:
    """Do what is missing and write the tables; returns 1 if a row failed, 2 if asked wrongly."""
    options = _parser().parse_args(arguments)
    output = options.publish or options.folder
    try:
        trials = {key: _trial(options, *key) for key in _keys(options)}
        missing = {key: trial for key, trial in trials.items() if not (trial.folder / "row.json").exists()}
        if trials:
            _refuse_others(options)
        if options.publish and (output / "rows.csv").exists() and not options.replace:
            raise ValueError(f"{output} has a leaderboard; --replace writes over it")
    except (TypeError, ValueError, OSError) as error:
        print(f"atlas leaderboard: {error}", file=sys.stderr)
        return 2
    if options.list:
        print(_listing(options, len(trials) - len(missing), len(trials)))
        return 0
    failed = [key for key, trial in missing.items() if not _try_row(key, trial, options.held_out)]
    if rows := _finished(options.folder):
        write_tables(rows, output)
        write_page(read_tables(output), output)
        print(output / "README.md")
    return 1 if failed else 0


def _refuse_others(options: argparse.Namespace) -> None:
    """Raise ValueError where the folder has rows that could not be compared with those that are asked for."""
    rows = _finished(options.folder)
    if other := {row["budget"] for row in rows} - {_limits(options)}:
        raise ValueError(f"{options.folder} has rows with a budget of {min(other)}; name another --folder")
    if tasks := {len(row["held_out"]) for row in rows} - {options.held_out}:
        raise ValueError(
            f"{options.folder} has rows scored on {min(tasks)} held-out tasks; give --held-out {min(tasks)} or name "
            "another --folder"
        )


def _listing(options: argparse.Namespace, done: int, all_: int) -> str:
    """Every learner, its version and what it does, and how much of what is asked for is there."""
    lines = []
    for name, entry in ENTRIES.items():
        absent = entry.peer and not is_installed(entry.peer, options.environments)
        lines.append((name, entry.version + (", to be installed" if absent else ""), entry.what))
    first, second = (max(len(line[i]) for line in lines) for i in (0, 1))
    listed = "\n".join(f"  {name:<{first}}  {version:<{second}}  {what}" for name, version, what in lines)
    return f"{listed}\n\n{done} of {all_} rows of {_limits(options)} each are done in {options.folder}."


def _finished(folder: Path) -> list[dict[str, Any]]:
    """The rows in a folder."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/row.json"))]


def _limits(options: argparse.Namespace) -> str:
    """The budget of every row in words; rows of different budgets could not be compared."""
    return _trial(options, TASKS[0], 0, START).limits


def _try_row(key: tuple[str, int, str], trial: Trial, held_out: int) -> bool:
    """Do a row; False, with the reason printed, if it fails: the others are done all the same."""
    task, seed, name = key
    print(f"{task}, seed {seed}, {name}", flush=True)
    try:
        do_row(task, name, trial, held_out)
    except (RuntimeError, ValueError, OSError, ModuleNotFoundError) as error:
        print(f"  failed: {error}", file=sys.stderr, flush=True)
        return False
    return True


def do_row(task: str, name: str, trial: Trial, held_out: int) -> None:
    """One learner on one task with one seed; what a row that did not end has left is thrown away."""
    entry = ENTRIES[name]
    shutil.rmtree(trial.folder, ignore_errors=True)
    trial.folder.mkdir(parents=True)
    changes = entry.changes(trial)  # installs a peer, which is not its learning
    began, cpu = time.perf_counter(), _cpu_seconds()
    outcome = entry.learn(trial)
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - cpu
    row = {
        "task": task, "learner": name, "seed": trial.seed, "version": entry.version, "what": entry.what,
        "budget": trial.limits, "seconds": round(seconds, 1), "cpu_seconds": round(cpu_seconds, 1),
        "changes": {setting: asdict(change) for setting, change in changes.items()},
        "held_out": confirm(trial.env_id, outcome.program, held_out, constants=trial.constants),
        **asdict(outcome),
    }  # fmt: skip
    temporary = trial.folder / "row.tmp"
    temporary.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    temporary.replace(trial.folder / "row.json")


def _cpu_seconds() -> float:
    """Of this process and of all that it started and saw end."""
    return sum(os.times()[:4])


def _keys(options: argparse.Namespace) -> list[tuple[str, int, str]]:
    """Every row, the seeds outermost: a leaderboard that is cut short has all learners with fewer seeds.

    The start is always among the learners: gains are counted from it.
    """
    learners = list(dict.fromkeys([START, *options.learners])) if options.learners else []
    return [
        (task, seed, name) for seed in range(options.seeds) for task in options.tasks for name in learners
    ]


def _trial(options: argparse.Namespace, task: str, seed: int, name: str) -> Trial:
    """The row's trial; ValueError or TypeError, with what there is, if there is no such task."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{task.removeprefix('ATLAS-')} {name}".lower())
    env_id, *constants = task.split()
    trial = Trial(
        env_id, seed, options.budget, options.tokens, options.seconds, (options.folder / f"{words}-s{seed}").absolute(),
        options.model_url, options.environments, constants_from(constants),
    )  # fmt: skip
    make_task(env_id, **trial.constants)
    return trial


def _learner(given: str) -> str:
    """A learner's name as it is typed: in any case."""
    names = {name.lower(): name for name in ENTRIES}
    if given.lower() not in names:
        raise argparse.ArgumentTypeError(f"no learner {given}{nearest(given.lower(), names)}")
    return names[given.lower()]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="atlas leaderboard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--list", action="store_true", help="list the learners and start nothing")
    add("--tasks", nargs="*", default=list(TASKS), metavar="TASK", help="environment ids, each with keywords "
        "if need be, as 'ATLAS-Bandit-v0 preset=noisy'; default: %(default)s")  # fmt: skip
    add("--learners", nargs="*", type=_learner, default=list(ENTRIES), metavar="NAME",
        help="default: all; none: only write the tables")  # fmt: skip
    add("--budget", type=at_least_one, default=200, help="candidates of each row (default 200)")
    add("--tokens", type=at_least_one, help="end a row that has written so many tokens, too")
    add("--seconds", type=seconds, help="end a row that has taken so long, too")
    add("--seeds", type=at_least_one, default=3, help="rows of each learner and task (default 3)")
    add("--held-out", type=at_least_one, default=16, help="held-out tasks (default 16)")
    add("--folder", type=Path, default=Path("runs/leaderboard"), help="of the rows (default %(default)s)")
    add("--model-url", metavar="URL", help="OpenAI-compatible server of the model for other "
        "projects' learners, as http://127.0.0.1:8000/v1; default: llama.cpp's, started for each row")  # fmt: skip
    add("--environments", type=Path, default=Path("runs/peers"), help="of other projects' learners")
    add("--publish", type=Path, help="folder for the tables; default: beside the rows")
    add("--replace", action="store_true", help="write over what --publish names")
    return parser
