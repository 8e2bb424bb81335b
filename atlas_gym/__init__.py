"""ATLAS Gym: environments whose action is a program.

    import gymnasium as gym
    import atlas_gym  # registers the ids

    env = gym.make("ATLAS-Bandit-v0")

`make_task` gives learners that write text the same tasks without Gymnasium in between; subclasses of `ProgramTask`
are tasks of your own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from atlas_gym._version import __version__
from atlas_gym.tasks.registry import make_known, make_task, registered_ids

if TYPE_CHECKING:
    from atlas_gym.evaluation.result import Judgement, Limits
    from atlas_gym.tasks.program_task import ProgramTask

__all__ = ["Judgement", "Limits", "ProgramTask", "__version__", "make_task"]

_LAZY = {
    "Judgement": "atlas_gym.evaluation.result",
    "Limits": "atlas_gym.evaluation.result",
    "ProgramTask": "atlas_gym.tasks.program_task",
}

for _id in registered_ids():
    make_known(_id)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import what defines and scores tasks when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
