"""The board of templates: learners with a continuous action, on the numbers that a task's template leaves open.

    python -m experiments.learners.template_board --env-ids ATLAS-Bandit-v0 --budget 240 --seeds 3
    python -m experiments.learners.template_board --learners --runs runs/default

Each learner searches on cheap training tasks; what it submits is scored on the full task, on held-out seeds
that no search has seen. Rows are written as they come, and those that the CSV already has are not run again,
so that an interrupted run continues. `--runs` adds finished runs of this package from their folders. Learners
that write programs are compared by `leaderboard`.
"""

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from atlas_gym.intervals import mean_interval
from experiments.learners.objective import SETTINGS, confirm, setting_for
from experiments.learners.template_entries import LEARNERS, expert, read_atlas, start
from experiments.report.spreadsheets import harmless

START, EXPERT = "middle of the template", "hand-written"
COLUMNS = ("env_id", "learner", "seed", "evaluations", "score", "low", "high", "held_out", "submitted")
Row = dict[str, object]


def run(env_id: str, learner: str, budget: int, seed: int, held_out: int) -> Row:
    """One row: search, then confirm; the start and the expert cost no evaluations."""
    setting = setting_for(env_id)
    if learner in (START, EXPERT):
        submission = (start if learner == START else expert)(setting)
    else:
        submission = LEARNERS[learner](setting, budget, seed)
    scores = confirm(env_id, submission.program, held_out)
    return _row(env_id, learner, seed, submission.evaluations, scores, submission.what)


def run_row(folder: Path) -> Row:
    """The row of a finished run."""
    found = read_atlas(folder)
    return _row(
        found.env_id, found.learner, found.seed, found.evaluations, found.scores, "a program of its own"
    )


def _row(
    env_id: str, learner: str, seed: int, evaluations: int, scores: Sequence[float], submitted: str
) -> Row:
    interval = mean_interval(scores)
    values = (
        env_id,
        learner,
        seed,
        evaluations,
        interval.mean,
        interval.low,
        interval.high,
        len(scores),
        submitted,
    )
    return dict(zip(COLUMNS, values, strict=True))


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: Mapping[str, object]) -> None:
    """Add a row, with a header if the file is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({name: harmless(value) for name, value in row.items()})


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The page: one table per environment, best score first."""
    parts = [_HEAD]
    for env_id in dict.fromkeys(row["env_id"] for row in rows):
        setting = setting_for(env_id)
        cheap = ", ".join(f"{name} {value}" for name, value in setting.search.items())
        parts.append(f"## {env_id}\n\nTemplate `{setting.template}`; searched with {cheap}.\n")
        mine = [row for row in rows if row["env_id"] == env_id]
        lines = [_line(row) for row in sorted(mine, key=lambda row: -float(row["score"]))]
        parts.append("\n".join([_COLUMNS, *lines]) + "\n")
    return "\n".join(parts)


_HEAD = """# Templates

Learners with a continuous action on the numbers that a template leaves open, best score first. What each submits is
scored on the full task, on held-out seeds from the first on, which no search has seen (± is the 95 % interval over
those seeds). They search the template that comes with the environment, all on the same cheap training tasks, unless
they choose among hand-written programs; a run of this package writes programs of its own and evaluates on the full
task.
Budgets are small and seeds few: this says that the learners work, not which is best. Written by
`python -m experiments.learners.template_board`.
"""
_COLUMNS = "| learner | seed | evaluations | held-out score | held-out seeds | submitted |\n|---|---|---|---|---|---|"


def _line(row: Mapping[str, str]) -> str:
    spread = (float(row["high"]) - float(row["low"])) / 2
    score = f"{float(row['score']):.4f} ± {spread:.4f}"
    cells = (row["learner"], row["seed"], row["evaluations"], score, row["held_out"], row["submitted"])
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing and write both files."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.learners.template_board", description=__doc__
    )
    parser.add_argument("--env-ids", nargs="*", default=list(SETTINGS), help="default: those of this package")
    parser.add_argument("--learners", nargs="*", choices=LEARNERS, help="default: all that there are")
    parser.add_argument("--budget", type=int, default=240, help="evaluations per learner (default 240)")
    parser.add_argument("--seeds", type=int, default=1, help="runs per learner (default 1)")
    parser.add_argument("--held-out", type=int, default=8, help="held-out seeds (default 8)")
    parser.add_argument("--runs", nargs="*", type=Path, default=[], help="folders of finished runs to add")
    parser.add_argument("--output", type=Path, default=Path("docs/learners/templates"), help="without ending")
    options = parser.parse_args(arguments)
    table = options.output.with_suffix(".csv")
    for env_id in options.env_ids:
        learners = LEARNERS if options.learners is None else options.learners
        jobs = [
            (START, 0),
            (EXPERT, 0),
            *((name, seed) for name in learners for seed in range(options.seeds)),
        ]
        for learner, seed in jobs:
            if (env_id, learner, str(seed)) not in _done(table):
                append(table, run(env_id, learner, options.budget, seed, options.held_out))
                print(env_id, learner, seed, flush=True)
    for row in map(run_row, options.runs):
        if (row["env_id"], row["learner"], str(row["seed"])) not in _done(table):
            append(table, row)
    options.output.with_suffix(".md").write_text(markdown(read(table)), encoding="utf-8")


def _done(table: Path) -> set[tuple[object, ...]]:
    return {(row["env_id"], row["learner"], row["seed"]) for row in read(table)}


if __name__ == "__main__":
    main()
