"""Running a plan: every (setting, horizon) and every batch of lemma instances is one task for a process pool.

A task is a pure function of its arguments, so the result does not depend on the number of jobs. What comes back of a
simulation are numbers: totals per seed, and of these slopes over the horizon.
"""

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track

from atlas_gym.evaluation.safe_start import safe_children
from atlas_gym.experiments.theory.inequalities import PathChecks, merged
from atlas_gym.experiments.theory.lemma_study import (
    broken_assumptions,
    floor_prices,
    margins_along,
    random_batch,
)
from atlas_gym.experiments.theory.model import Array, BanditSettings, make_bandits, variation
from atlas_gym.experiments.theory.settings import DRIFTS, Plan, Setting
from atlas_gym.experiments.theory.simulate import Simulation, simulate
from atlas_gym.intervals import Interval, mean_interval

CURVE_POINTS = 200


Cells = Mapping[int, pd.DataFrame]
"""What one setting did at each horizon, ascending; see `measure`."""


@dataclass(frozen=True)
class Results:
    """Everything a study found."""

    plan: Plan
    """What was asked for."""
    cells: dict[Setting, Cells]
    """Per setting."""
    on_paths: pd.DataFrame
    """Lemma checks along every path of the settings above, see `inequalities.merged`."""
    on_instances: pd.DataFrame
    """Lemma checks on the random instances."""
    broken: list[dict[str, Any]]
    """Violations under broken assumptions."""
    margins: list[dict[str, Any]]
    """What Lemma A.3 says along the main drifts."""
    floor_prices: list[dict[str, float]]
    """What a constant floor costs for ever."""

    def group(self, name: str) -> list[tuple[Setting, Cells]]:
        """The settings of one group, in the plan's order."""
        return [(setting, self.cells[setting]) for setting in self.plan.settings if setting.group == name]


def run_cell(setting: Setting, horizon: int, seeds: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate one setting at one horizon, checking the lemmas along the way."""
    bandit = make_bandits(BanditSettings(horizon, DRIFTS[setting.drift]), range(seeds))
    checks = PathChecks()
    return measure(simulate(bandit, setting.learner, [checks])), checks.tally


def measure(run: Simulation) -> pd.DataFrame:
    """The numbers of one simulation, a row a seed.

    `budget`: V_T of Eq. 8, in units of θ. `regret`: the cumulative dynamic regret R_T (Eq. 14); `learning`, `bias`:
    its two parts; `decomposition_gap`: the largest |regret − learning − bias| of any round, rounding only.
    `acceptance`: mean weight of the candidate in the next reference, the share of promotions under a gate. `kl`:
    KL(candidate ‖ reference), nats, mean over decisions. `lowest`: log10 of the smallest probability any reference
    gave to any action, −inf if it excluded one. `diversity`: λ_min(Σ z zᵀ)/W, mean over refits. `curve`: cumulative
    regret at `CURVE_POINTS` equally spaced rounds.
    """
    points = np.linspace(0, run.regret.shape[1] - 1, CURVE_POINTS).round().astype(int)
    return pd.DataFrame({
        "budget": variation(run.bandit.parameters),
        "regret": run.regret.sum(1),
        "learning": run.learning.sum(1),
        "bias": run.bias.sum(1),
        "acceptance": run.weight.mean(1),
        "kl": run.kl.mean(1),
        "diversity": run.diversity.mean(1),
        "lowest": run.lowest / np.log(10),
        "decomposition_gap": np.abs(run.regret - run.learning - run.bias).max(1),
        "curve": list(run.regret.cumsum(1)[:, points]),
    })  # fmt: skip


def run_plan(plan: Plan, jobs: int) -> Results:
    """Run everything in `plan`, in so many processes."""
    cells = [(setting, horizon) for setting in plan.settings for horizon in plan.horizons_of(setting)]
    # Long horizons first, so that no worker starts a long task when the others are done.
    longest_first = sorted(cells, key=lambda cell: -cell[1])
    tasks: dict[object, tuple] = {cell: (run_cell, *cell, plan.seeds) for cell in longest_first}
    tasks |= {("instances", number): (random_batch, number) for number in range(plan.lemma_batches)}
    tasks["broken"] = (broken_assumptions, plan.broken_instances)
    done = _run(tasks, jobs)
    return Results(
        plan=plan,
        cells={s: {horizon: done[s, horizon][0] for horizon in plan.horizons_of(s)} for s in plan.settings},
        on_paths=merged(done[cell][1] for cell in cells),
        on_instances=merged(done["instances", number] for number in range(plan.lemma_batches)),
        broken=done["broken"],
        margins=margins_along(plan.seeds, plan.horizons),
        floor_prices=floor_prices(plan.seeds),
    )


def slopes_by_seed(cells: Cells) -> Array:
    """Least-squares slope of log R_T over log T of each seed, over at least two horizons with the same seeds."""
    return np.polyfit(np.log([*cells]), np.log([cell.regret for cell in cells.values()]), 1)[0]


def slope(cells: Cells) -> Interval:
    """Mean over seeds of these slopes."""
    return mean_interval(slopes_by_seed(cells))


def _run(tasks: dict[object, tuple], jobs: int) -> dict:
    watched = partial(track, description="theory study", total=len(tasks), console=Console(stderr=True))
    if jobs == 1:
        return {key: f(*arguments) for key, (f, *arguments) in watched(tasks.items())}
    # Spawned, not forked: the parent may already hold threads of a numerical library.
    spawned = multiprocessing.get_context("spawn")
    with safe_children(), ProcessPoolExecutor(jobs, mp_context=spawned) as pool:
        futures = {pool.submit(*tasks[key]): key for key in tasks}
        return {futures[future]: future.result() for future in watched(as_completed(futures))}
