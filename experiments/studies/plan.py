"""What a study compares: every arm from every start with every seed, all else equal."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from atlas_gym.experiments.studies.scheduler import Job, do_jobs, job_of
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.store.plain import SettingsError, as_text, build, merge, read_layers

DONE = "done"
"""A file of this name in a run's folder says that the run came to its end."""


@dataclass(frozen=True)
class Arm:
    """One row of the tables."""

    method: str = "atlas"
    """A method's name."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this arm alone, as a run's configuration nests them. `{seed}` in an `adapter` is the run's seed: each
    run searches with a policy of its own training."""


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
    """What the study asks, in words (Markdown); heads its page."""

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
        return run_name(self.arm, self.start, self.seed)

    def settings(self) -> dict[str, Any]:
        """The run's configuration file."""
        arm = self.plan.arms[self.arm]
        own = {"env": self.plan.env, "method": arm.method, "start": self.start, "seed": self.seed}
        settings = merge(merge(dict(self.plan.settings), arm.settings), own)
        if isinstance(settings.get("adapter"), str):
            settings["adapter"] = settings["adapter"].replace("{seed}", str(self.seed))
        return settings

    def config(self) -> RunConfig:
        """The configuration as the run will read it; raises `SettingsError` for a setting that is none."""
        return load_config(None, self.settings())


def run_name(arm: str, start: str, seed: int) -> str:
    """The name of a run within its study."""
    return f"{arm}-{start}-s{seed}"


def read_plan(path: Path) -> Plan:
    """Read a study's plan and check every run's settings. What studies share lies in `shared/`: a plan may be
    `based_on` a file there, and then says only what differs.

    Raises:
        SettingsError: the file cannot be read, or one of its settings is unknown or unusable.
    """
    values = read_layers(path, "the plan")
    if not isinstance(values.get("arms"), dict):
        raise SettingsError(f"{path} is no plan: it needs name, env and arms")
    arms = {str(name): arm or {} for name, arm in values.pop("arms").items()}
    plan = build(Plan, {**values, "arms": arms}, f"{path}: ")
    for run in plan.runs():
        run.config()
    names = [run.name for run in plan.runs()]
    if len({*names}) < len(names):
        raise SettingsError(f"{path}: two runs have one name; list every start and every seed once")
    return plan


def do_runs(
    plan: Plan, folder: Path, workers: int, tell: Callable[[str], None], known: Collection[str] = ()
) -> list[PlannedRun]:
    """Do or continue every run that has not come to its end, or is to have more rounds by now; returns those that
    failed.

    Args:
        plan: the study.
        folder: where the runs' folders lie.
        workers: runs at a time.
        tell: called with one line whenever a run begins or ends.
        known: names of runs that need not be done.
    """
    missing = {folder / run.name: run for run in plan.runs() if run.name not in known}
    waiting, failed = (place for place, run in missing.items() if not _has_ended(place, run)), []

    def ask() -> Job | None:
        place = next(waiting, None)
        if place is None:
            return None
        (place / DONE).unlink(missing_ok=True)
        tell(f"{missing[place].name}: begins")
        return job_of(as_text(missing[place].settings()), place, place)

    def ended(job: Job, code: int, stopped: bool) -> None:
        run = missing[job.folder]
        if code == 0:
            (job.folder / DONE).touch()
            tell(f"{run.name}: done")
        else:
            failed.append(run)
            tell(f"{run.name}: failed with exit code {code}, see {job.log}")

    do_jobs(ask, ended, workers=workers)
    return failed


def _has_ended(place: Path, run: PlannedRun) -> bool:
    """Whether a run came to its end, and has as many rounds as the plan asks for by now."""
    if not (place / DONE).exists():
        return False
    try:
        return load_config(place / "config.yaml", {}).rounds >= run.config().rounds
    except SettingsError:  # another release's: what it has come to can be read, but it cannot go on
        return True
