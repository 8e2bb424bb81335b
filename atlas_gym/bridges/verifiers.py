"""The environments as a verifiers v1 taskset (needs the extra `verifiers`, in an environment without `serve`).

A task is a prompt with a seed; its reward is the normalized score of the program in the last reply, 0 for uniformly
bad and 1 for as good as possible, clipped below at -1, which is also what a failed program gets.
"""

import asyncio
from collections.abc import Iterable
from functools import cache
from typing import Any

from atlas_gym.envs.episode import Episode, EpisodeSettings
from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.optional import require
from atlas_gym.program_text import program_in
from atlas_gym.tasks.registry import find_task, make_task

vf: Any = require("verifiers.v1", "verifiers")

_WORST = -1.0


@cache
def _pool() -> EvaluatorPool:
    """One pool for all tasks of the process; its processes end with it."""
    return EvaluatorPool(2)


class AtlasData(vf.TaskData):
    """What identifies a task."""

    env_id: str
    seed: int
    split: str = "train"
    constants: dict[str, Any] = {}  # noqa: RUF012 - a pydantic field, copied per instance


class AtlasTask(vf.Task[AtlasData]):
    """One task, scored by the environment."""

    @vf.reward
    async def normalized_score(self, trace: vf.Trace) -> float:
        """Run the reply's program without holding up the other rollouts."""
        data = self.data
        kind = find_task(data.env_id, importing=False)  # a row of a data set imports nothing
        task = kind.from_keywords(**data.constants).at(data.seed, data.split)
        evaluation = await asyncio.wrap_future(_pool().submit(program_in(trace.last_reply or ""), task))
        return max(_WORST, evaluation.metrics["normalized_score"]) if evaluation.ok else _WORST


class AtlasConfig(vf.TasksetConfig):
    """Which tasks there are."""

    env_id: str = "ATLAS-Bandit-v0"
    split: str = "train"
    first_seed: int = 0
    tasks: int = 64
    constants: dict[str, Any] = {}  # noqa: RUF012


class AtlasTaskset(vf.Taskset[AtlasTask, AtlasConfig]):
    """Tasks of consecutive seeds."""

    def load(self) -> Iterable[AtlasTask]:
        """The tasks, cheap to list: nothing is evaluated."""
        config = self.config
        posed = make_task(config.env_id, **config.constants)
        for seed in range(config.first_seed, config.first_seed + config.tasks):
            prompt = Episode(posed, EpisodeSettings(split=config.split), seed).observation()
            data = AtlasData(
                prompt=prompt, env_id=config.env_id, seed=seed, split=config.split, constants=config.constants
            )
            yield AtlasTask(data, config.task)
