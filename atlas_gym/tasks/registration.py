"""The environments of this package: their Gymnasium ids and where their parts live.

Everything is named by strings and imported on use, so that `import atlas_gym` loads neither torch nor an
evaluator.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium

from atlas_gym.tasks.registry import BUILT_IN, find_task, make_known, registered_ids

if TYPE_CHECKING:
    from atlas_gym.tasks.problem import Problem


@dataclass(frozen=True)
class Registered:
    """One environment: every part as `module:name`."""

    env_id: str
    """Gymnasium id."""
    environment: str
    """The `gymnasium.Env`."""
    vector_environment: str
    """The `gymnasium.vector.VectorEnv` that evaluates a batch on a pool."""
    problem: str
    """The `Problem` that both are built on."""


REGISTERED = (
    Registered(
        "ATLAS-Bandit-v0",
        environment="atlas_gym.tasks.bandit.env:BanditEnv",
        vector_environment="atlas_gym.tasks.bandit.env:BanditVectorEnv",
        problem="atlas_gym.tasks.bandit.problem:BanditProblem",
    ),
    Registered(
        "ATLAS-Burgers-v0",
        environment="atlas_gym.tasks.burgers.env:BurgersEnv",
        vector_environment="atlas_gym.tasks.burgers.env:BurgersVectorEnv",
        problem="atlas_gym.tasks.burgers.problem:BurgersProblem",
    ),
)


def packaged_ids() -> list[str]:
    """Ids of the environments that come with this package."""
    return [*(entry.env_id for entry in REGISTERED), *BUILT_IN]


def register_environments() -> None:
    """Make the ids known to `gymnasium.make`; a second call does nothing."""
    for entry in REGISTERED:
        if entry.env_id not in gymnasium.registry:
            gymnasium.register(
                id=entry.env_id, entry_point=entry.environment, vector_entry_point=entry.vector_environment
            )
    for task_id in registered_ids():
        make_known(task_id)


def load_problem(env_id: str, **params: Any) -> "Problem":
    """Build the problem behind an id from the environment's own keywords (`preset`, constants)."""
    for entry in REGISTERED:
        if entry.env_id == env_id:
            module, name = entry.problem.split(":")
            return getattr(import_module(module), name).from_keywords(**params)
    from atlas_gym.tasks.task_problem import TaskProblem

    if ":" not in env_id and not env_id.endswith(".py") and env_id not in registered_ids():
        known = ", ".join([*(entry.env_id for entry in REGISTERED), *registered_ids()])
        raise ValueError(f"no environment {env_id!r}; there are {known}")
    return TaskProblem(find_task(env_id).from_keywords(**params))


def constants_from(settings: Sequence[str]) -> dict[str, Any]:
    """Turn NAME=VALUE into keywords; a value that is no Python literal is a text."""
    constants: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not NAME=VALUE")
        try:
            constants[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            constants[name] = value
    return constants
