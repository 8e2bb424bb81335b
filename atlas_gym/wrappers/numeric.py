"""Numbers as actions: the open parameters of a template, or a whole number for one of a list of programs."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.template import Parameter, Template

_PROGRESS = 4
"""Entries of an observation before the coordinates."""
_MOST_POINTS = 2**63
"""Gymnasium counts a Discrete space's actions in 64 bits."""


def task_of(env: gym.Env[Any, Any]) -> ProgramTask:
    """The task that an environment of programs poses; TypeError for any other environment."""
    if not isinstance(env.unwrapped, ProgramEnv):
        raise TypeError(f"{type(env.unwrapped).__name__} does not take programs")
    return env.unwrapped.task


class NumericProgram(gym.Wrapper[np.ndarray, Any, str, str], ABC):
    """A program environment whose actions and observations are numbers.

    The observation is a float32 Box in [-1, 1] of length 4 + n:

    | index   | content                                                                          |
    |---------|----------------------------------------------------------------------------------|
    | 0       | turns taken, as a share of the episode's turns                                   |
    | 1       | 1 if the last program ran, -1 if it failed, 0 before the first                   |
    | 2       | normalized score of the last program, clipped to [-1, 1]; -1 if it failed; the   |
    |         | score itself if its task does not normalize                                      |
    | 3       | the best normalized score of the episode so far, likewise; 0 before the first    |
    | 4 …     | the last action as n coordinates; 0 before the first                             |
    """

    def __init__(self, env: gym.Env[Any, Any], action_space: spaces.Space[Any], coordinates: int):
        super().__init__(env)
        self.action_space = action_space
        self.observation_space = spaces.Box(-1.0, 1.0, (_PROGRESS + coordinates,), np.float32)
        self._best = 0.0
        self._turns: int = env.get_wrapper_attr("settings").turns

    @abstractmethod
    def program(self, action: Any) -> str:
        """The program that an action stands for."""

    @abstractmethod
    def coordinates(self, action: Any) -> np.ndarray:
        """The action as numbers in [-1, 1], for the observation."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Pose a new task, see `ProgramEnv.reset`; the prompt is dropped."""
        _, info = self.env.reset(seed=seed, options=options)
        return np.zeros(self.observation_space.shape or (), np.float32), {**info, "program": None}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Evaluate the action's program; `info["program"]` is its text."""
        program = self.program(action)
        _, reward, terminated, truncated, info = self.env.step(program)
        ran = info["status"] == "ok"
        normalized = info["score"] if info["normalized_score"] is None else info["normalized_score"]
        score = float(np.clip(normalized, -1.0, 1.0)) if ran else -1.0
        self._best = score if info["turn"] == 1 else max(self._best, score)
        progress = [info["turn"] / self._turns, 1.0 if ran else -1.0, score, self._best]
        observation = np.array([*progress, *self.coordinates(action)], np.float32)
        return observation, float(reward), terminated, truncated, {**info, "program": program}


class TemplateAction(NumericProgram, gym.utils.RecordConstructorArgs):
    """Box or Discrete actions for an environment of programs; see `NumericProgram` for what is observed.

    Args:
        env: An environment made by `gym.make` from one of this package's ids.
        template: A template, the name of one that comes with the environment, or None for its default.
        levels: None for actions in Box(-1, 1), a coordinate per parameter, which are clipped to the bounds.
            A number from 2 for Discrete actions instead: the points of a grid with so many values per
            parameter, the last parameter varying quickest.

    Example:
        >>> import gymnasium as gym
        >>> import atlas_gym
        >>> from atlas_gym.wrappers import TemplateAction
        >>> env = TemplateAction(gym.make("ATLAS-Bandit-v0", horizon=100, replicas=1))
        >>> env.action_space
        Box(-1.0, 1.0, (3,), float32)
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> info["status"], observation.shape
        ('ok', (7,))
        >>> env.close()
        >>> TemplateAction(gym.make("ATLAS-Bandit-v0"), "discounted_linucb", levels=5).action_space
        Discrete(125)
    """

    def __init__(
        self, env: gym.Env[str, str], template: Template | str | None = None, levels: int | None = None
    ):
        gym.utils.RecordConstructorArgs.__init__(self, template=template, levels=levels)
        task = task_of(env)
        if isinstance(template, Mapping):  # an `EnvSpec` that went through JSON
            parameters = tuple(Parameter(**p) for p in template["parameters"])
            template = Template(**{**template, "parameters": parameters})
        self.template = template if isinstance(template, Template) else task.template(template or "")
        size = self.template.size
        if levels is None:
            space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (size,), np.float32)
        else:
            if not isinstance(levels, Integral) or levels < 2 or int(levels) ** size >= _MOST_POINTS:
                raise ValueError(
                    f"levels is {levels!r}; a grid has 2 values or more per parameter, 2**63 in all"
                )
            levels = int(levels)
            space = spaces.Discrete(levels**size)
        self.levels = levels
        NumericProgram.__init__(self, env, space, size)

    def program(self, action: Any) -> str:
        """The template filled in."""
        return self.template.program(self.coordinates(action))

    def coordinates(self, action: Any) -> np.ndarray:
        """The action itself, clipped, or the point of the grid."""
        if self.levels is None:
            return np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        index = _index(action, self.levels**self.template.size)
        point = np.unravel_index(index, (self.levels,) * self.template.size)
        return np.linspace(-1.0, 1.0, self.levels)[np.array(point)]


def _index(action: Any, count: int) -> int:
    """A Discrete action as a number; ValueError for one outside the space."""
    index = operator.index(action)
    if not 0 <= index < count:
        raise ValueError(f"the action is {index}; it must be from 0 to {count - 1}")
    return index


class ProgramChoice(NumericProgram, gym.utils.RecordConstructorArgs):
    """Discrete choice among the environment's expert programs; see `NumericProgram` for what is observed.

    Args:
        env: An environment made by `gym.make` from one of this package's ids.
        experts: Names of expert programs (`python -m atlas_gym list` shows them); by default all, in the
            order of the gallery. ValueError for an unknown one.
    """

    def __init__(self, env: gym.Env[str, str], experts: Sequence[str] | None = None):
        gym.utils.RecordConstructorArgs.__init__(self, experts=experts)
        known = task_of(env).programs
        self.names = tuple(known) if experts is None else tuple(experts)
        if unknown := set(self.names) - set(known):
            raise ValueError(f"no expert {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        if not self.names:
            raise ValueError("a choice needs at least one program")
        self._programs = tuple(known[name].program for name in self.names)
        NumericProgram.__init__(self, env, spaces.Discrete(len(self.names)), 1)

    def program(self, action: Any) -> str:
        """The chosen expert's text."""
        return self._programs[_index(action, len(self.names))]

    def coordinates(self, action: Any) -> np.ndarray:
        """The place in the list, from -1 for the first to 1 for the last."""
        return np.array([2.0 * int(action) / max(1, len(self.names) - 1) - 1.0])
