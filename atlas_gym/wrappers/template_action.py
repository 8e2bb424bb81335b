"""Numbers as actions: the open parameters of a program template."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from atlas_gym.tasks.template import Template
from atlas_gym.wrappers.numeric import NumericProgram, task_of


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
        self.template = _resolve(env, template)
        self.levels = levels
        NumericProgram.__init__(self, env, _action_space(self.template, levels), self.template.size)

    def program(self, action: Any) -> str:
        """The template filled in."""
        return self.template.program(self.coordinates(action))

    def coordinates(self, action: Any) -> np.ndarray:
        """The action itself, clipped, or the point of the grid."""
        if self.levels is None:
            return np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        point = np.unravel_index(int(action), (self.levels,) * self.template.size)
        return np.linspace(-1.0, 1.0, self.levels)[np.array(point)]


def _resolve(env: gym.Env[str, str], template: Template | str | None) -> Template:
    task = task_of(env)
    return template if isinstance(template, Template) else task.template(template or "")


def _action_space(template: Template, levels: int | None) -> spaces.Space[Any]:
    if levels is None:
        return spaces.Box(-1.0, 1.0, (template.size,), np.float32)
    if levels < 2:
        raise ValueError(f"levels is {levels}; a grid has at least 2 values per parameter")
    return spaces.Discrete(levels**template.size)
