"""ATLAS Gym: environments whose action is a program.

    import gymnasium as gym
    import atlas_gym  # registers the ids

    env = gym.make("ATLAS-Bandit-v0")

`task_spec` and `make_task` give learners that write text the same tasks without Gymnasium in between.
"""

from atlas_gym._version import __version__
from atlas_gym.tasks.registration import register_environments
from atlas_gym.tasks.spec import TaskSpec, make_task, observe_task, task_spec

__all__ = ["TaskSpec", "__version__", "make_task", "observe_task", "task_spec"]

register_environments()
