"""The leaderboard: every learner on every environment, the same number of evaluations, held-out scores.

    python -m experiments.learners.leaderboard --budget 240

Each learner searches the same template on cheap training tasks; what it submits is scored on the full task,
on held-out seeds that no search has seen. Rows are written as they come, and those that the CSV already has
are not run again, so that an interrupted run continues.
"""

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from atlas_gym.intervals import mean_interval
from experiments.learners.confirm import confirm, confirm_expert
from experiments.learners.objective import Setting
from experiments.learners.optimisers import learn_cma, learn_optuna, learn_random
from experiments.learners.sb3 import ALGORITHMS, REFERENCES, learn_sb3
from experiments.learners.settings import SETTINGS

Learner = Callable[[Setting, int, int], np.ndarray]

LEARNERS: Mapping[str, Learner] = {
    "random search": learn_random,
    "CMA-ES": learn_cma,
    "Optuna TPE": learn_optuna,
    **{f"SB3 {name}": partial(learn_sb3, algorithm=name) for name in ALGORITHMS},
}
"""By name: coordinates from (setting, budget, seed)."""

START = "middle of the template"
COLUMNS = ("env_id", "learner", "budget", "seed", "score", "low", "high", "held_out", "parameters")


def run(env_id: str, learner: str, budget: int, seed: int, held_out: int) -> dict[str, object]:
    """One row: search, then confirm; the start and the expert cost no evaluations."""
    setting = SETTINGS[env_id]
    template = setting.load_template()
    if learner == REFERENCES[env_id]:
        scores, parameters, budget = confirm_expert(env_id, learner, held_out), "", 0
    else:
        budget = 0 if learner == START else budget
        point = np.zeros(template.size) if learner == START else LEARNERS[learner](setting, budget, seed)
        scores = confirm(env_id, template.program(point), held_out)
        parameters = " ".join(f"{name}={value:.4g}" for name, value in template.values(point).items())
    interval = mean_interval(scores)
    values = (env_id, learner, budget, seed, interval.mean, interval.low, interval.high, held_out, parameters)
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
        writer.writerow(row)


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The page: one table per environment, best score first."""
    parts = [
        "# Leaderboard\n",
        "Learners of numbers on the templates that come with the environments: the same training tasks, the same\n"
        "number of evaluations, then the submitted program on the full task, on held-out seeds (± is the 95 %\n"
        "interval over those). Budgets are small and most rows are one seed of the learner: this says that the\n"
        "learners work, not which is best. Written by `python -m experiments.learners.leaderboard`.\n",
    ]
    for env_id in dict.fromkeys(row["env_id"] for row in rows):
        setting = SETTINGS[env_id]
        cheap = ", ".join(f"{name} {value}" for name, value in setting.search.items())
        parts.append(f"## {env_id}\n\nTemplate `{setting.template}`; searched with {cheap}.\n")
        parts.append(
            "| learner | seed | evaluations | held-out score | tasks | submitted |\n|---|---|---|---|---|---|"
        )
        mine = [row for row in rows if row["env_id"] == env_id]
        for row in sorted(mine, key=lambda row: -float(row["score"])):
            spread = (float(row["high"]) - float(row["low"])) / 2
            parts[-1] += (
                f"\n| {row['learner']} | {row['seed']} | {row['budget']} | {float(row['score']):.4f} ± {spread:.4f} "
                f"| {row['held_out']} | {row['parameters']} |"
            )
        parts[-1] += "\n"
    return "\n".join(parts)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing and write both files."""
    parser = argparse.ArgumentParser(prog="python -m experiments.learners.leaderboard", description=__doc__)
    parser.add_argument("--env-ids", nargs="*", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--learners", nargs="*", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--budget", type=int, default=240, help="evaluations per learner (default 240)")
    parser.add_argument("--seeds", type=int, default=1, help="runs per learner (default 1)")
    parser.add_argument("--held-out", type=int, default=8, help="held-out tasks (default 8)")
    parser.add_argument(
        "--output", type=Path, default=Path("docs/learners/leaderboard"), help="without ending"
    )
    options = parser.parse_args(arguments)
    table = options.output.with_suffix(".csv")
    for env_id in options.env_ids:
        jobs = [(START, 0), (REFERENCES[env_id], 0)]
        jobs += [(learner, seed) for learner in options.learners for seed in range(options.seeds)]
        for learner, seed in jobs:
            done = {(row["env_id"], row["learner"], row["seed"]) for row in read(table)}
            if (env_id, learner, str(seed)) not in done:
                append(table, run(env_id, learner, options.budget, seed, options.held_out))
                print(env_id, learner, seed, flush=True)
    options.output.with_suffix(".md").write_text(markdown(read(table)), encoding="utf-8")


if __name__ == "__main__":
    main()
