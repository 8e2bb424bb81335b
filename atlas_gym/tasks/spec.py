"""What a learner that writes text needs to know of an environment, without Gymnasium in between.

`task_spec` describes an environment's programs, `make_task` gives the task that an evaluator scores them on.
Both are cheap: they import neither torch nor the hidden state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atlas_gym.tasks.registration import load_problem

if TYPE_CHECKING:
    from atlas_gym.evaluation.protocols import Task


@dataclass(frozen=True)
class TaskSpec:
    """The interface between an environment and whoever writes programs for it."""

    env_id: str
    """Gymnasium id, such as `ATLAS-Bandit-v0`."""
    function: str
    """Name of the function that a program must define."""
    signature: str
    """Its first line, `def ...:`."""
    preamble: str
    """The import lines that programs begin with."""
    description: str
    """The task in words, for a prompt."""
    starts: Mapping[str, str]
    """Whole programs to start from: `named` (constants on lines of their own), `inlined`, `scratch`."""
    worst_score: float
    """Reward of a program that failed; below every score that a program can reach."""
    errors: tuple[str, ...] = ()
    """Those of its metrics that are errors: never negative, lower is better."""


def task_spec(env_id: str, **params: Any) -> TaskSpec:
    """Describe an environment's programs.

    Args:
        env_id: A registered id.
        params: The environment's own keywords, where they differ from its defaults.

    Raises:
        ValueError: If no environment has this id.
        TypeError: If the environment has no such keyword.
    """
    return load_problem(env_id, **params).spec


def make_task(env_id: str, *, seed: int, split: str = "train", **params: Any) -> "Task":
    """Give the task that `gym.make(env_id, split=split, **params)` poses after `reset(seed=seed)`.

    Args:
        env_id: A registered id.
        seed: Any non-negative integer; a task is determined by its seed, its split and its parameters.
        split: `train`, or `held_out` for confirming a result; tasks of the two never share random numbers.
        params: The environment's own keywords, where they differ from its defaults.

    Raises:
        ValueError: If no environment has this id, or the split or seed is not one.
        TypeError: If the environment has no such keyword.
    """
    return load_problem(env_id, **params).task(seed, split)


def observe_task(env_id: str, *, seed: int, split: str = "train", **params: Any) -> tuple[str, ...]:
    """Facts about a task that anybody could observe without its hidden state, one line each, for a prompt.

    Args:
        env_id: A registered id.
        seed: As for `make_task`.
        split: As for `make_task`.
        params: The environment's own keywords, where they differ from its defaults.

    Raises:
        ValueError: If no environment has this id, or the split or seed is not one.
        TypeError: If the environment has no such keyword.
    """
    return load_problem(env_id, **params).observations(seed, split)
