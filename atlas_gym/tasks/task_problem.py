"""A `ProgramTask` as the `Problem` that environments, command line and gallery are built on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.problem import Expert, Problem
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.spec import TaskSpec


@dataclass(frozen=True)
class TaskProblem(Problem):
    """The `Problem` that a task poses."""

    posed: ProgramTask
    """The task with its constants, of any seed."""

    @classmethod
    def from_keywords(cls, *, preset: str = "default", **constants: Any) -> Self:
        raise TypeError("a TaskProblem is made of a ProgramTask")

    @property
    def metric_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("normalized_score", "worst_instance", *self.posed.metrics)

    @property
    def gallery_metrics(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("normalized_score", *self.posed.metrics)

    @property
    def presets(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.posed.presets)

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            env_id=self.posed.env_id,
            function=self.posed.function,
            signature=self.posed.signature,
            preamble=self.posed.preamble,
            description=self.posed.description,
            starts=self.posed.starts,
            worst_score=self.posed.worst_score,
            errors=self.posed.errors,
        )

    @property
    def initial(self) -> str:
        return "start"

    def task(self, seed: int, split: str) -> ProgramTask:
        return self.posed.at(seed, split)

    def short_task(self, seed: int, split: str) -> ProgramTask:
        return self.posed.at(seed, split).shortened()

    def experts(self) -> Mapping[str, Expert]:
        return self.posed.programs

    def observations(self, seed: int, split: str) -> tuple[str, ...]:
        return self.posed.at(seed, split).observations()

    def text(self, evaluation: Evaluation | None) -> str:
        return self.posed.text(evaluation)

    def image(self, evaluation: Evaluation | None) -> np.ndarray:
        return self.posed.image(evaluation)
