"""A whole number as the action: which of a list of programs to run."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from atlas_gym.wrappers.numeric import NumericProgram, task_of


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
        return self._programs[int(action)]

    def coordinates(self, action: Any) -> np.ndarray:
        """The place in the list, from -1 for the first to 1 for the last."""
        return np.array([2.0 * int(action) / max(1, len(self.names) - 1) - 1.0])
