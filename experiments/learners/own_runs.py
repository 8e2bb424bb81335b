"""Methods of this package on the leaderboard: a run with the method's settings and as many candidates as all others.

The layout of a run follows the budget, so that there are five rounds and two phases where it allows: 8 candidates an
island and round, where a supporter patches programs 6 and 2 patches, on one to five islands.
"""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atlas_gym.experiments.learners.changes import Change, changes_between, nest
from atlas_gym.experiments.learners.ledger import Outcome, Point, Trial
from atlas_gym.experiments.shipped import find
from atlas_gym.experiments.studies.scheduler import Job, do_jobs, job_of
from atlas_gym.trainers.loop.config import as_yaml, load_config
from atlas_gym.trainers.store.plain import flatten, plain, read_mapping
from atlas_gym.trainers.store.store import RunStore, StoreError

_SAMPLES, _PATCHES, _ROUNDS, _MOST_ISLANDS = 8, 2, 5, 5
_LOOK_S = 0.5
"""Between two looks at how much of its budget a run has used."""

_SETTINGS = read_mapping(Path(__file__).with_suffix(".yaml"), "the runs' settings")


def _said(config: str, part: str) -> dict[str, Any]:
    """Of what runs set by themselves, by dotted names, the `value` or the `why`."""
    own = _SETTINGS["every run"] | _SETTINGS["a configuration" if config else "a method"]
    return {name: setting[part] for name, setting in own.items()}


def settings_of(trial: Trial, method: str, own: Mapping[str, Any], config: str = "") -> dict[str, Any]:
    """The run's configuration.

    Args:
        trial: the row.
        method: one of `trainers.loop.methods`.
        own: settings of this learner alone, by dotted names.
        config: a configuration that comes with the package and lies below everything else.

    Raises:
        ValueError: the budget does not pay for one round.
    """
    if trial.budget < _SAMPLES:
        raise ValueError(f"a budget of {trial.budget} candidates does not pay for one round of {_SAMPLES}")
    islands = min(_MOST_ISLANDS, max(1, trial.budget // (_SAMPLES * _ROUNDS)))
    rounds = trial.budget // (_SAMPLES * islands)
    patches = _PATCHES if method.startswith("atlas") else 0
    return nest({
        **_said(config, "value"),
        "env": trial.env_id, "method": method, "seed": trial.seed, "rounds": rounds,
        "phase_every": max(1, rounds * 2 // _ROUNDS), "env_args": dict(trial.constants),
        "exploration.islands": islands, "exploration.groups": min(2, islands),
        "exploration.samples": _SAMPLES - patches, "exploration.patches": patches, **own,
    })  # fmt: skip


def changes(trial: Trial, method: str, own: Mapping[str, Any], config: str = "") -> dict[str, Change]:
    """How a learner's settings differ from the method's, or from the configuration's."""
    given = {"env": trial.env_id, "env_args": dict(trial.constants), "seed": trial.seed}
    return changes_between(
        plain(load_config(_file(config), settings_of(trial, method, own, config))),
        plain(load_config(_file(config), {**given, "method": method})),
        {**_said(config, "why"), **dict.fromkeys(flatten(nest(own)), "what this row is about")},
        "as many candidates as the budget has",
    )


def _file(config: str) -> Path | None:
    return find("configs", config) if config else None


def learn_run(trial: Trial, method: str, own: Mapping[str, Any], config: str = "") -> Outcome:
    """Do the run in a process of its own; RuntimeError if it fails."""
    settings = load_config(_file(config), settings_of(trial, method, own, config))
    _do(job_of(as_yaml(settings), trial.folder / "run", trial.folder), trial)
    return read_outcome(trial.folder / "run")


def _do(job: Job, trial: Trial) -> None:
    """Do a run; one that reaches a limit is stopped, and stores what it has."""
    began, jobs = time.monotonic(), [job]

    def is_spent(job: Job) -> bool:
        tokens = _tokens(job.folder) if trial.tokens is not None else 0
        return trial.is_spent(0, tokens, time.monotonic() - began)

    def ended(job: Job, code: int, stopped: bool) -> None:
        if code != 0 and not stopped:
            raise RuntimeError(f"the run failed with exit code {code}, see {job.log}")

    do_jobs(lambda: jobs.pop() if jobs else None, ended, workers=1, is_hopeless=is_spent, poll_s=_LOOK_S)


def _tokens(folder: Path) -> int:
    """Tokens that a run has written so far; 0 for one that has not begun."""
    try:
        with RunStore.open_readonly(folder) as store:
            return sum(unit["tokens"] for unit in store.unit_summaries(first=1))
    except StoreError:
        return 0


def read_outcome(folder: Path) -> Outcome:
    """What a finished run submits and what it took, from its store; lessons are candidates that nobody submits."""
    with RunStore.open_readonly(folder) as store:
        (best,) = store.best_candidates(1)
        written = [record for record in store.candidates() if record.origin != "seed"]
        start, units, phases = store.start(), store.unit_summaries(first=1), store.phases()
        lessons = store.lessons(len(phases))
    different = [record for record in (*written, *lessons) if record.duplicate_of is None]
    return Outcome(
        best.program, float(best.score or 0.0), len(written) + len(lessons), len(different),
        dict(Counter(record.status for record in different)), sum(unit["tokens"] for unit in units), 0,
        _curve(float(start.score or 0.0), units, phases),
    )  # fmt: skip


def _curve(start: float, units: list[dict[str, Any]], phases: list[dict[str, Any]]) -> tuple[Point, ...]:
    """A point a unit; a phase's time counts from the round after it. Start-up is not in the seconds."""
    points = [Point(0, 0, 0.0, start)]
    tuned = {phase["round"] + 1: sum(phase.get("seconds", {}).values()) for phase in phases}
    for unit in units:
        last = points[-1]
        explored = unit["generation_s"] + unit["evaluation_wait_s"]
        seconds = last.seconds + explored + tuned.pop(unit["round"], 0.0)
        best = last.best if unit["best"] is None else max(last.best, unit["best"])
        points.append(
            Point(last.candidates + unit["samples"], last.tokens + unit["tokens"], round(seconds, 2), best)
        )
    return tuple(points)
