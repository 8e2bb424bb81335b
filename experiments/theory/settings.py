"""Which settings the study compares, and at what size: the quick plan and the full one.

A setting is a method on a drift, nothing else. Names are the rows of the tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from experiments.theory.learner import Learner, Window
from experiments.theory.model import Drift
from trainers.evodpo.references import Averaged, EveryPhase, Fixed, Gated, Timed
from trainers.evodpo.settings import GateSettings

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


DPO = Learner(rule=Fixed())
STALE = Learner(rule=Fixed(), stale=True)
EVODPO = Learner(rule=EveryPhase())
GATED = Learner(rule=Gated(), gate=GateSettings(min_gain=0.05, max_kl=0.5, kl_penalty=0.0))
AVERAGED = Learner(rule=Averaged())
SHRINKING_DPO = Learner(rule=Fixed(), beta=0.6, beta_decay=1 / 3)


def rows(
    group: str, learners: Mapping[str, Learner], drift: str = "rotation, 4π", prefix: str = ""
) -> list[Setting]:
    """A group's settings: each learner under the drift of this name."""
    return [Setting(group, prefix + row, learner, drift) for row, learner in learners.items()]


def sweep(group: str, learners: Mapping[float, Learner]) -> list[Setting]:
    """A group in which one number varies."""
    return [Setting(group, f"{group} {v:g}", learner, value=float(v)) for v, learner in learners.items()]


def gated(min_gain: float, max_kl: float, kl_penalty: float = 0.0) -> Learner:
    """EvoDPO with another gate."""
    return replace(GATED, gate=GateSettings(min_gain, max_kl=max_kl, kl_penalty=kl_penalty))


MAIN = {
    "DPO, fixed uniform reference": DPO,
    "DPO, fixed stale reference": STALE,
    "EvoDPO, reference every phase": EVODPO,
    "EvoDPO, gated (ε_s 0.05, δ_H 0.5)": GATED,
    "averaged (0.6)": AVERAGED,
    "timed (every 4th phase)": Learner(rule=Timed(period=4)),
}
"""Rotation by 4π, β = 1, floor 0.05: the comparison of the paper."""
CONTROLS = {
    "no floor: EvoDPO": replace(EVODPO, floor=0.0),
    "no floor: gated": replace(GATED, floor=0.0),
    "no floor: averaged": replace(AVERAGED, floor=0.0),
    "no floor: stale reference": replace(STALE, floor=0.0),
    "frozen gate (δ_H 0.02)": gated(0.0, 0.02),
    **{
        f"β = {beta:g}: {name}": replace(learner, beta=beta)
        for beta in (0.3, 0.1, 0.03)
        for name, learner in (("DPO", DPO), ("EvoDPO", EVODPO))
    },
    "β = 0.6 ∛(500/T): DPO": SHRINKING_DPO,
}
"""Where the claim should fail, and what explains it. The frozen gate's KL budget is below what the first phase moves
from the uniform reference (0.05 to 0.5 nats at β = 1)."""
ABLATIONS = {
    "θ known: DPO": replace(DPO, oracle=True),
    "θ known: EvoDPO": replace(EVODPO, oracle=True),
    "gate grades by its own estimate": replace(GATED, self_graded=True),
    "gate with 4 checkpoints, δ_H 0.02, β_ref 10": replace(gated(0.0, 0.02, kl_penalty=10.0), checkpoints=4),
    "EvoDPO, floor 0.001": replace(EVODPO, floor=1e-3),
    "16 phases per window: DPO": replace(DPO, window=Window(phases=16)),
    "16 phases per window: EvoDPO": replace(EVODPO, window=Window(phases=16)),
}
"""Variants that say where a difference comes from."""
SHORT = {"DPO": DPO, "stale reference": STALE, "EvoDPO": EVODPO, "gated": GATED}
"""The main methods under another drift, whose name stands before theirs."""
LONG = {
    "DPO, β = 1": DPO,
    "DPO, β = 0.6 ∛(500/T)": SHRINKING_DPO,
    "EvoDPO, floor 0.05": EVODPO,
    "EvoDPO, floor 0.05 · √(500/T)": replace(EVODPO, floor_decay=0.5),
}
"""Does the sublinear regret last? Continued to longer horizons."""


def _sweeps() -> list[Setting]:
    """One number varied at one horizon, and β against the phases per window: each method at its best."""
    grids = [
        Setting(
            f"grid {method}", f"β {beta:g}, {n} phases per window",
            replace(learner, beta=beta, window=Window(phases=n)), value=beta,
        )
        for method, learner in (("DPO", DPO), ("EvoDPO", EVODPO))
        for beta in BETAS
        for n in PHASES_PER_WINDOW
    ]  # fmt: skip
    return [
        *sweep("sweep δ_H", {budget: gated(0.0, budget) for budget in BUDGETS}),
        *sweep("sweep ε_s", {gain: gated(gain, 10.0) for gain in TOLERANCES}),
        *sweep("sweep floor", {floor: replace(EVODPO, floor=floor) for floor in FLOORS}),
        *grids,
    ]


def quick_plan() -> Plan:
    """Every figure and all tables but the ablations, ten seeds, 1,000 lemma instances."""
    short = SHORT | {"averaged": AVERAGED}
    settings = [
        *rows("main", MAIN),
        *rows("control", CONTROLS),
        *rows("control", SHORT, "rotation, V = 0.05 T", "V = 0.05 T: "),
        *rows("drift", short, "no drift", "no drift: "),
        *rows("drift", short, "random walk, 4π", "random walk, 4π: "),
        *rows("drift", short, "8 jumps, 4π", "8 jumps, 4π: "),
        *rows("long", LONG),
        *_sweeps(),
    ]
    return Plan(
        "quick", seeds=10, horizons=(500, 1000, 2000, 4000, 8000), long_horizons=(16000,), sweep_horizon=4000,
        settings=tuple(settings), lemma_batches=40, broken_instances=25,
    )  # fmt: skip


def full_plan() -> Plan:
    """What `docs/theory.md` quotes: forty seeds, the ablations, longer horizons, 4,000 lemma instances."""
    plan = quick_plan()
    return replace(
        plan, name="full", seeds=40, long_horizons=(16000, 32000, 64000), sweep_horizon=8000,
        settings=plan.settings + tuple(rows("ablation", ABLATIONS)), lemma_batches=160, broken_instances=100,
    )  # fmt: skip
