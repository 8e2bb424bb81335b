"""What a study compares: every arm on every task with every seed, all else equal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from atlas_gym.experiments.shipped import find
from atlas_gym.trainers.loop.config import RunConfig, for_method, load_config
from atlas_gym.trainers.loop.tasks import Tasks
from atlas_gym.trainers.store.plain import SettingsError, build, merge, read_layers


@dataclass(frozen=True)
class Task:
    """An environment, and the settings on it."""

    env: str  # environment id
    config: str = ""  # a shipped configuration, or a file, that this task's settings are laid on
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings on this task alone, as a run's configuration nests them."""


@dataclass(frozen=True)
class Arm:
    """One of what is compared."""

    method: str = "atlas"  # a method's name
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this arm alone. `{task}` and `{seed}` in an `adapter` are the run's: each run searches with a policy
    of its own training."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study."""

    task: str
    arm: str
    seed: int
    settings: Mapping[str, Any] = field(compare=False)  # its configuration file
    secret: str = ""  # what its tasks are drawn under; empty: this machine's secret

    @property
    def name(self) -> str:
        """The run's folder within the study's."""
        return run_name(self.task, self.arm, self.seed)

    def config(self) -> RunConfig:
        """The configuration as the run will read it; raises `SettingsError` for a setting that is none."""
        return load_config(None, self.settings)


@dataclass(frozen=True)
class Plan:
    """A study, read from a file."""

    name: str  # names the folder of its runs
    tasks: Mapping[str, Task]
    arms: Mapping[str, Arm]  # the others are compared with the first
    seeds: tuple[int, ...] = (0, 1, 2)  # seeds of the runs: the unit of replication
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings that all runs share
    seeds_per_secret: int = 0
    """So many seeds in a row share a secret that tasks are drawn under, the next ones another: what holds under many
    was not made for one. 0: all have this machine's."""

    def runs(self) -> list[PlannedRun]:
        """Every run, the seeds outermost: a study that is cut short has everything with fewer seeds."""
        planned = []
        for seed, (name, task), (arm_name, arm) in product(self.seeds, self.tasks.items(), self.arms.items()):
            base = read_layers(find("configs", task.config), "the configuration") if task.config else {}
            base = for_method(base, arm.method)
            shared = merge(merge(merge(base, self.settings), task.settings), arm.settings)
            settings = merge(shared, {"env": task.env, "method": arm.method, "seed": seed})
            if isinstance(settings.get("adapter"), str):
                settings["adapter"] = settings["adapter"].replace("{seed}", str(seed)).replace("{task}", name)
            secret = f"{self.name} {seed // self.seeds_per_secret}" if self.seeds_per_secret else ""
            planned.append(PlannedRun(name, arm_name, seed, settings, secret))
        return planned


def run_name(task: str, arm: str, seed: int) -> str:
    """The name of a run within its study."""
    return f"{task}-{arm}-s{seed}"


def read_plan(path: Path) -> Plan:
    """Read a study's plan, check every run's settings, and that its task takes them. A plan that is `based_on` another
    says only what differs. Raises `SettingsError`: the file cannot be read, or one of its settings is unknown or
    unusable."""
    values = read_layers(path, "the plan")
    for part in ("tasks", "arms"):
        if not isinstance(values.get(part), dict):
            raise SettingsError(f"{path} is no plan: it needs name, tasks and arms")
        values[part] = {str(name): own or {} for name, own in values[part].items()}
    plan = build(Plan, values, f"{path}: ")
    runs = plan.runs()
    if not runs:
        raise SettingsError(f"{path} is a plan of no runs: it needs a task, an arm and a seed")
    for run in runs:
        config = run.config()
        if run.seed == plan.seeds[0]:
            Tasks(config)  # the task exists, and takes these constants
    if len({run.name for run in runs}) < len(runs):
        raise SettingsError(f"{path}: two runs have one name; list every seed once")
    return plan
