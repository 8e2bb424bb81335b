"""What the leaderboard's learners search, and how what they submit is confirmed.

They search a template's coordinates, scored on training tasks of an environment; what they find is scored on the full
task, on held-out seeds that no search has seen.

All learners see the same tasks in the same order (evaluation i poses task `first_seed + i % tasks`), and all
count the same thing: one evaluation is one program run once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from atlas_gym import make_task
from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.evaluation import EvaluatorPool, Limits
from atlas_gym.tasks.registry import find_task
from atlas_gym.wrappers import Template, TemplateAction


def patient(limits: Limits) -> Limits:
    """Ten times the wall-clock time: how busy the machine is must not decide between programs. Their CPU time is
    limited as ever."""
    return replace(limits, wall_s=10 * limits.wall_s)


@dataclass(frozen=True)
class Setting:
    """An environment and how cheaply its programs are tried during the search."""

    env_id: str
    """Gymnasium id."""
    template: str
    """Name of one of the environment's templates."""
    search: dict[str, Any] = field(default_factory=dict)
    """Constants of the environment during the search; the held-out confirmation uses the full task."""
    first_seed: int = 0
    """Seed of the first training task."""
    tasks: int = 4
    """Training tasks that take turns; several, so that a program that suits one task alone does not win."""

    @property
    def constants(self) -> dict[str, Any]:
        """The environment's keywords during the search."""
        limits = make_task(self.env_id, **self.search).at(0, "train").limits
        return {**self.search, "limits": patient(limits)}

    def make(self) -> TemplateAction:
        """The wrapped environment, on the training split."""
        return TemplateAction(ProgramEnv(task=self.env_id, **self.constants), self.template)

    def load_template(self) -> Template:
        """The template."""
        return find_task(self.env_id).template(self.template)


@dataclass(frozen=True)
class Found:
    """What a search submits."""

    coordinates: np.ndarray
    """The point, in [-1, 1]."""
    evaluations: int
    """How many evaluations it took; a learner that works in batches may leave some of its budget."""


class Objective:
    """Coordinates in [-1, 1] to a score, counting evaluations; usable as a context manager."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.template = setting.load_template()
        self.evaluations = 0
        self._env = setting.make()

    def __call__(self, coordinates: np.ndarray) -> float:
        """Score of the program at these coordinates on the next training task; higher is better."""
        self._env.reset(seed=self.setting.first_seed + self.evaluations % self.setting.tasks)
        self.evaluations += 1
        return self._env.step(np.asarray(coordinates, np.float32))[1]

    def mean(self, coordinates: np.ndarray) -> float:
        """Mean score over all training tasks; as many evaluations as there are tasks."""
        return float(np.mean([self(coordinates) for _ in range(self.setting.tasks)]))

    def __enter__(self) -> "Objective":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._env.close()


def confirm(env_id: str, program: str, seeds: int, workers: int = 2) -> list[float]:
    """Scores of a program on the first held-out tasks; a failure counts as the worst score."""
    family = make_task(env_id)
    family = replace(family, limits=patient(family.limits))
    tasks = [family.at(seed, "held_out") for seed in range(seeds)]
    with EvaluatorPool(workers) as pool:
        evaluations = [future.result() for future in [pool.submit(program, task) for task in tasks]]
    return [family.worst_score if e.score is None else e.score for e in evaluations]


def confirm_expert(env_id: str, name: str, seeds: int, workers: int = 2) -> list[float]:
    """The same for an expert program."""
    return confirm(env_id, make_task(env_id).programs[name].program, seeds, workers)


def relative_gap(scores: Sequence[float], reference: Sequence[float]) -> float:
    """By what share the mean falls short of the reference's (negative: better than it); scores are below 0."""
    return sum(scores) / sum(reference) - 1.0


def setting_for(env_id: str) -> Setting:
    """How programs of an environment are tried; of any other than those of `SETTINGS`, on the full task.

    Raises ValueError if the task has no template.
    """
    return SETTINGS.get(env_id) or Setting(env_id, find_task(env_id).template().name)


SETTINGS = {
    "ATLAS-Bandit-v0": Setting("ATLAS-Bandit-v0", "sw_linucb", {"horizon": 500, "replicas": 2}),
    "ATLAS-Burgers-v0": Setting("ATLAS-Burgers-v0", "loss_weights", {"steps": 200, "replicas": 1}, tasks=2),
    "ATLAS-BinPacking-v0": Setting("ATLAS-BinPacking-v0", "avoid_waste", {"items": 300}),
    "ATLAS-TSP-v0": Setting("ATLAS-TSP-v0", "near_first", {"count": 5}),
    "ATLAS-CirclePacking-v0": Setting("ATLAS-CirclePacking-v0", "rings", tasks=1),
}
"""By environment. The drift per step of a shorter bandit is that of the full one."""
