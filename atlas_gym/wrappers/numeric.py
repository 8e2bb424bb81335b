"""Numbers as actions: the open parameters of a template."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.tasks.template import Parameter, Template


class TemplateAction(gym.Wrapper[np.ndarray, Any, str, str], gym.utils.RecordConstructorArgs):
    """A program environment whose actions and observations are numbers.

    The action is a Box in [-1, 1], a coordinate for each of the template's n parameters; what lies outside is clipped.
    The observation is a float32 Box in [-1, 1] of length 4 + n:

    | index   | content                                                                          |
    |---------|----------------------------------------------------------------------------------|
    | 0       | turns taken, as a share of the episode's turns                                   |
    | 1       | 1 if the last program ran, -1 if it failed, 0 before the first                   |
    | 2       | normalized score of the last program, clipped to [-1, 1]; -1 if it failed        |
    | 3       | the best normalized score of the episode so far, likewise; 0 before the first    |
    | 4 …     | the last action; 0 before the first                                              |

    Args:
        env: An environment made by `gym.make` from one of this package's ids; TypeError for another.
        template: A template, the name of one that comes with the environment, or None for its default.

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
    """

    def __init__(self, env: gym.Env[Any, Any], template: Template | str | None = None):
        gym.utils.RecordConstructorArgs.__init__(self, template=template)
        super().__init__(env)
        if not isinstance(env.unwrapped, ProgramEnv):
            raise TypeError(f"{type(env.unwrapped).__name__} does not take programs")
        if isinstance(template, Mapping):  # an `EnvSpec` that went through JSON
            parameters = tuple(Parameter(**p) for p in template["parameters"])
            template = Template(**{**template, "parameters": parameters})
        posed = env.unwrapped.task
        self.template = template if isinstance(template, Template) else posed.template(template or "")
        self.action_space = spaces.Box(-1.0, 1.0, (self.template.size,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (4 + self.template.size,), np.float32)
        self._best = 0.0

    def program(self, action: Any) -> str:
        return self.template.program(np.asarray(action, np.float64))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Pose a new task, see `ProgramEnv.reset`; the prompt is dropped."""
        _, info = self.env.reset(seed=seed, options=options)
        return np.zeros(4 + self.template.size, np.float32), {**info, "program": None}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Evaluate the action's program; `info["program"]` is its text."""
        program = self.program(action)
        _, reward, terminated, truncated, info = self.env.step(program)
        ran = info["status"] == "ok"
        score = float(np.clip(info["normalized_score"], -1.0, 1.0)) if ran else -1.0
        self._best = score if info["turn"] == 1 else max(self._best, score)
        turns = self.env.get_wrapper_attr("settings").turns
        progress = [info["turn"] / turns, 1.0 if ran else -1.0, score, self._best]
        observation = np.array([*progress, *np.clip(action, -1.0, 1.0)], np.float32)
        return observation, float(reward), terminated, truncated, {**info, "program": program}
