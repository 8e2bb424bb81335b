"""Running a plan: every (setting, horizon) and every batch of lemma instances is one task for a process pool.

A task is a pure function of its arguments, so the result does not depend on the number of jobs.
"""

import multiprocessing
import os
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

from atlas_gym.evaluation.safe_start import safe_children
from experiments.theory.checks import PathChecks, Tally, merged
from experiments.theory.lemma_study import Broken, broken_assumptions, random_batch
from experiments.theory.limits import floor_prices, margins_along
from experiments.theory.measures import Cell, measure
from experiments.theory.model import BanditSettings, make_bandits
from experiments.theory.settings import Plan, Setting
from experiments.theory.simulate import simulate

T = TypeVar("T")


@dataclass(frozen=True)
class Results:
    """Everything a study found."""

    plan: Plan
    """What was asked for."""
    cells: dict[Setting, list[Cell]]
    """Per setting, one cell per horizon, ascending."""
    on_paths: dict[str, Tally]
    """Lemma checks along every path of the settings above."""
    on_instances: dict[str, Tally]
    """Lemma checks on the random instances."""
    broken: list[Broken]
    """Violations under broken assumptions."""
    margins: list[dict[str, Any]]
    """What Lemma A.3 says along the main drifts."""
    floor_prices: list[dict[str, float]]
    """What a constant floor costs for ever."""
    seconds: float
    """Wall time of the study."""
    cpu_seconds: float
    """Processor time of all its processes, which says more on a busy machine."""
    jobs: int
    """Processes it ran in."""

    def group(self, name: str) -> list[tuple[Setting, list[Cell]]]:
        """The settings of one group, in the plan's order."""
        return [(setting, self.cells[setting]) for setting in self.plan.settings if setting.group == name]


def run_cell(setting: Setting, horizon: int, seeds: int) -> tuple[Cell, dict[str, Tally]]:
    """Simulate one setting at one horizon, checking the lemmas along the way."""
    bandit = make_bandits(BanditSettings(horizon, setting.drift), range(seeds))
    checks = PathChecks()
    return measure(bandit, simulate(bandit, setting.learner, [checks])), checks.tallies


def run_plan(plan: Plan, jobs: int) -> Results:
    """Run everything in `plan`, in so many processes."""
    began, spent = time.monotonic(), _cpu_seconds()
    tasks: dict[object, tuple] = {}
    for setting in plan.settings:
        for horizon in plan.horizons_of(setting):
            tasks[setting, horizon] = (run_cell, setting, horizon, plan.seeds)
    for number in range(plan.lemma_batches):
        tasks["instances", number] = (random_batch, number)
    tasks["broken"] = (broken_assumptions, plan.broken_instances)
    done = _run(tasks, jobs)
    return Results(
        plan=plan,
        cells={s: [done[s, horizon][0] for horizon in plan.horizons_of(s)] for s in plan.settings},
        on_paths=merged(done[s, horizon][1] for s in plan.settings for horizon in plan.horizons_of(s)),
        on_instances=merged(done["instances", number] for number in range(plan.lemma_batches)),
        broken=done["broken"],
        margins=margins_along(plan.seeds, plan.horizons),
        floor_prices=floor_prices(plan.seeds),
        seconds=time.monotonic() - began,
        cpu_seconds=_cpu_seconds() - spent,
        jobs=jobs,
    )


def _run(tasks: dict[object, tuple], jobs: int) -> dict:
    if jobs == 1:
        return {key: f(*arguments) for key, (f, *arguments) in _watched(tasks.items(), len(tasks))}
    # Long horizons first, so that no worker starts a long task when the others are done.
    order = sorted(tasks, key=lambda key: -_horizon(tasks[key]))
    # Spawned, not forked: the parent may already hold threads of a numerical library.
    spawned = multiprocessing.get_context("spawn")
    with safe_children(), ProcessPoolExecutor(jobs, mp_context=spawned) as pool:
        futures = {pool.submit(*tasks[key]): key for key in order}
        return {futures[future]: future.result() for future in _watched(as_completed(futures), len(tasks))}


def _watched(tasks: Iterable[T], total: int) -> Iterable[T]:
    """The same, with a progress bar for whoever watches."""
    return track(tasks, "theory study", total=total, console=Console(stderr=True))


def _cpu_seconds() -> float:
    """Processor time of this process and of its finished children."""
    return sum(os.times()[:4])


def _horizon(task: tuple) -> int:
    function, *arguments = task
    return arguments[1] if function is run_cell else 0
