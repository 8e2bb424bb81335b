"""The environments that pose a `ProgramTask`."""

from dataclasses import dataclass
from typing import Any

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.envs.vector_env import ProgramVectorEnv
from atlas_gym.tasks.registry import find_task
from atlas_gym.tasks.task_problem import TaskProblem


@dataclass(frozen=True)
class _Poses:
    task: str

    def from_keywords(self, **constants: Any) -> TaskProblem:
        return TaskProblem(find_task(self.task).from_keywords(**constants))


class TaskEnv(ProgramEnv):
    """The environment of a task.

    Args:
        task: What `registry.find_task` finds it by.
        keywords: As for `ProgramEnv`.
    """

    def __init__(self, *, task: str, **keywords: Any) -> None:
        self.problem_type = _Poses(task)  # type: ignore[assignment]
        super().__init__(**keywords)


class TaskVectorEnv(ProgramVectorEnv):
    """The environment of a task for a batch of programs on a pool; keywords of `TaskEnv` and `ProgramVectorEnv`."""

    def __init__(self, num_envs: int = 1, *, task: str, **keywords: Any) -> None:
        self.problem_type = _Poses(task)  # type: ignore[assignment]
        super().__init__(num_envs, **keywords)
