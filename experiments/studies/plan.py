"""What a study compares: every arm from every start with every seed, all else equal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from trainers.loop.config import RunConfig, load_config
from trainers.store.plain import SettingsError, build, merge, read_mapping


@dataclass(frozen=True)
class Arm:
    """One row of the tables."""

    method: str = "atlas"
    """A method's name."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this arm alone, as a run's configuration nests them."""


@dataclass(frozen=True)
class Plan:
    """A study, read from a file."""

    name: str
    """Names the folder of the results."""
    env: str
    """Environment id."""
    arms: Mapping[str, Arm]
    """The arms by name."""
    starts: tuple[str, ...] = ("named",)
    """Starting programs."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the runs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that all arms share."""
    about: str = ""
    """What the study asks and what came out, in words (Markdown); heads its page."""

    def runs(self) -> "list[PlannedRun]":
        """Every run, the seeds outermost: a study that is cut short has all arms with fewer seeds."""
        return [
            PlannedRun(self, arm, start, seed)
            for seed, start, arm in product(self.seeds, self.starts, self.arms)
        ]


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study."""

    plan: Plan
    """The study."""
    arm: str
    """Name of the arm."""
    start: str
    """Starting program."""
    seed: int
    """Seed."""

    @property
    def name(self) -> str:
        """The run's folder within the study's."""
        return f"{self.arm}-{self.start}-s{self.seed}"

    def settings(self) -> dict[str, Any]:
        """The run's configuration file."""
        arm = self.plan.arms[self.arm]
        own = {"env": self.plan.env, "method": arm.method, "start": self.start, "seed": self.seed}
        return merge(merge(dict(self.plan.settings), arm.settings), own)

    def config(self) -> RunConfig:
        """The configuration as the run will read it; raises `SettingsError` for a setting that is none."""
        return load_config(None, self.settings())


def read_plan(path: Path) -> Plan:
    """Read a study's plan and check every run's settings.

    Raises:
        SettingsError: the file cannot be read, or one of its settings is unknown or unusable.
    """
    values = read_mapping(path, "the plan")
    if not isinstance(values.get("arms"), dict):
        raise SettingsError(f"{path} is no plan: it needs name, env and arms")
    arms = {name: build(Arm, arm or {}) for name, arm in values.pop("arms").items()}
    try:
        plan = Plan(arms=arms, **{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except TypeError as error:
        raise SettingsError(f"{path}: {error}") from error
    for run in plan.runs():
        run.config()
    return plan
