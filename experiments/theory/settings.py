"""Which settings the study compares, and at what size: the quick plan and the full one.

A setting is a method on a drift, nothing else. Most are in `plan.yaml`; those here are one method, one number varied.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from atlas_gym.experiments.theory.learner import Learner
from atlas_gym.experiments.theory.model import Drift
from atlas_gym.trainers.store.plain import build, merge, plain, read_mapping

DRIFTS = {
    "rotation, 4π": Drift("rotation", angle=4 * np.pi),
    "rotation, V = 0.05 T": Drift("rotation", angle=0.025, per_round=True),
    "no drift": Drift("none"),
    "random walk, 4π": Drift("walk", angle=4 * np.pi),
    "8 jumps, 4π": Drift("jumps", angle=4 * np.pi, jumps=8),
}
"""The main drift first: two full turns whatever the horizon. 0.025 rad per round of a parameter of norm 2 are a
V_T of 0.05 T."""
FLOORS = (0.0, 1e-6, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
BETAS = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0)
BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
TOLERANCES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
PHASES_PER_WINDOW = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Setting:
    """One row of a table."""

    group: str
    """Which table or figure it belongs to."""
    name: str
    """What it is called there; unique within its group and drift."""
    learner: Learner
    """The method."""
    drift: str = "rotation, 4π"
    """What the parameter does, one of `DRIFTS`."""
    value: float | None = None
    """The varied number, where the group is a sweep."""


@dataclass(frozen=True)
class Plan:
    """Everything a run of the study computes."""

    name: str
    """`quick` or `full`."""
    seeds: int
    """Bandits per setting."""
    horizons: tuple[int, ...]
    """T of the tables; slopes are taken over all of them."""
    long_horizons: tuple[int, ...]
    """Further T at which the group `long` is continued."""
    sweep_horizon: int
    """T of the sweeps and grids."""
    settings: tuple[Setting, ...]
    """All rows and sweep points."""
    lemma_batches: int
    """Batches of 25 random instances for the lemmas."""
    broken_instances: int
    """Instances per broken assumption."""

    def horizons_of(self, setting: Setting) -> tuple[int, ...]:
        """The T at which a setting is run."""
        if setting.group.startswith(("sweep", "grid")):
            return (self.sweep_horizon,)
        if setting.group == "long":
            return self.horizons + self.long_horizons
        return self.horizons


_FILE = read_mapping(Path(__file__).with_name("plan.yaml"), "the plan")


def method(like: str, **other: Any) -> Learner:
    """The method of this name, with other settings."""
    return build(Learner, merge(merge(plain(Learner()), _FILE["methods"][like]), other))


def rows(group: str) -> list[Setting]:
    """A group's settings under the main drift."""
    return [Setting(group, name, method(**own)) for name, own in _FILE[group].items()]


def _under(group: str, drift: str, before: str, *methods: str) -> Iterator[Setting]:
    """The main methods under another drift, whose name stands before theirs."""
    for like in ("DPO", "stale reference", "EvoDPO", "gated", *methods):
        yield Setting(group, f"{before}: {like}", method(like), drift)


def _sweeps() -> Iterator[Setting]:
    """One number varied at one horizon, and β against the phases per window: each method at its best."""
    varied: dict[str, dict[float, Learner]] = {
        "sweep δ_H": {v: method("gated", gate={"min_gain": 0.0, "max_kl": v}) for v in BUDGETS},
        "sweep ε_s": {v: method("gated", gate={"min_gain": v, "max_kl": 10.0}) for v in TOLERANCES},
        "sweep floor": {v: method("EvoDPO", floor=v) for v in FLOORS},
    }
    for group, learners in varied.items():
        for v, learner in learners.items():
            yield Setting(group, f"{group} {v:g}", learner, value=v)
    for like, beta, n in product(("DPO", "EvoDPO"), BETAS, PHASES_PER_WINDOW):
        learner = method(like, beta=beta, window={"phases": n})
        yield Setting(f"grid {like}", f"β {beta:g}, {n} phases per window", learner, value=beta)


def make_plan(name: str) -> Plan:
    """`quick`: every figure and all tables but the ablations; `full`: what `docs/theory.md` quotes."""
    settings = [
        *rows("main"),
        *rows("control"),
        *_under("control", "rotation, V = 0.05 T", "V = 0.05 T"),
        *(s for drift in ("no drift", "random walk, 4π", "8 jumps, 4π")
          for s in _under("drift", drift, drift, "averaged")),
        *rows("long"),
        *_sweeps(),
        *(rows("ablation") if name == "full" else ()),
    ]  # fmt: skip
    return build(Plan, {"name": name, "settings": settings, **_FILE["plans"][name]})
