"""ATLAS Gym: environments whose action is a program.

    import gymnasium as gym
    import atlas_gym  # registers the ids

    env = gym.make("ATLAS-Bandit-v0")

`task_spec` and `make_task` give learners that write text the same tasks without Gymnasium in between.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from atlas_gym._version import __version__
from atlas_gym.tasks.registration import register_environments
from atlas_gym.tasks.spec import TaskSpec, make_task, observe_task, task_spec

if TYPE_CHECKING:
    from atlas_gym.evaluation.result import Judgement, Limits
    from atlas_gym.tasks.program_task import ProgramTask

__all__ = [
    "Judgement",
    "Limits",
    "ProgramTask",
    "TaskSpec",
    "__version__",
    "make_task",
    "observe_task",
    "task_spec",
]

register_environments()

_LAZY = {
    "Judgement": "atlas_gym.evaluation.result",
    "Limits": "atlas_gym.evaluation.result",
    "ProgramTask": "atlas_gym.tasks.program_task",
}


def __getattr__(name: str) -> Any:
    """Import what defines and scores tasks when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
