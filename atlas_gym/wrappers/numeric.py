"""What the wrappers for numbers share: the observation, and a turn played with a program."""

from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.tasks.program_task import ProgramTask

#: turn, whether the last program ran, its normalized score, the best normalized score.
_PROGRESS = 4


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
    | 2       | normalized score of the last program, clipped to [-1, 1]; -1 if it failed        |
    | 3       | the best normalized score of the episode so far, likewise; 0 before the first    |
    | 4 …     | the last action as n coordinates; 0 before the first                             |
    """

    def __init__(self, env: gym.Env[Any, Any], action_space: spaces.Space[Any], coordinates: int):
        super().__init__(env)
        self.action_space = action_space
        self.observation_space = spaces.Box(-1.0, 1.0, (_PROGRESS + coordinates,), np.float32)
        self._best = 0.0
        self._evaluated = False
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
        self._best, self._evaluated = 0.0, False
        return np.zeros(self.observation_space.shape or (), np.float32), self._noted(info, None)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Evaluate the action's program; `info["program"]` is its text."""
        program = self.program(action)
        _, reward, terminated, truncated, info = self.env.step(program)
        observation = self._observe(action, info)
        return observation, float(reward), terminated, truncated, self._noted(info, program)

    def _observe(self, action: Any, info: dict[str, Any]) -> np.ndarray:
        ran = info["status"] == "ok"
        score = float(np.clip(info["normalized_score"], -1.0, 1.0)) if ran else -1.0
        self._best = max(self._best, score) if self._evaluated else score
        self._evaluated = True
        progress = [info["turn"] / self._turns, 1.0 if ran else -1.0, score, self._best]
        return np.array([*progress, *self.coordinates(action)], np.float32)

    @staticmethod
    def _noted(info: dict[str, Any], program: str | None) -> dict[str, Any]:
        return {**info, "program": program}
