"""A vector environment whose batch of programs runs on a pool of evaluators.

One object holds the episodes and one pool does all the evaluations, results in the order of the actions: a program that
hangs occupies one worker until its own limit. Episodes reset in the step that ends them (SAME_STEP): the usual
NEXT_STEP would throw away every second program of a one-step episode.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from atlas_gym.envs.episode import Episode, plain_seed, require_text
from atlas_gym.envs.program_env import ProgramEnv, task_seed_for
from atlas_gym.evaluation.processes import EvaluatorPool, core_count
from atlas_gym.evaluation.result import Evaluation

Texts = tuple[str, ...]

_SCORES = ("score", "normalized_score", "incumbent_score")
"""Entries of `info` that are numbers where there is a value."""


class ProgramVectorEnv(VectorEnv):
    """A batch of episodes of one task, evaluated together.

    Args:
        num_envs: Programs per step.
        workers: Evaluators in the pool; by default one per usable CPU, and at most one per program.
        keywords: As for `ProgramEnv`.
    """

    metadata = ProgramEnv.metadata | {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int = 1, *, workers: int | None = None, **keywords: Any):
        single = ProgramEnv(**keywords)
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; a batch has at least one program")
        self.num_envs = num_envs
        self.workers = workers or min(num_envs, core_count())
        self.task, self.settings = single.task, single.settings
        self.confinement, self.render_mode = single.confinement, single.render_mode
        self._pool: EvaluatorPool | None = None
        self._generators: list[np.random.Generator] = []
        self._episodes = [Episode(self.task, self.settings, 0)] * num_envs  # none of them has begun
        self._ended = list(self._episodes)
        self.single_action_space = single.action_space
        self.single_observation_space = single.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    @property
    def last_evaluations(self) -> tuple[Evaluation | None, ...]:
        """The evaluation of each of the last step's programs, with times and traces."""
        return tuple(episode.last for episode in self._ended)

    def reset(
        self,
        *,
        seed: SupportsIndex | Sequence[SupportsIndex | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Texts, dict[str, Any]]:
        """Pose new tasks. If one is refused, all episodes stay as they were.

        Args:
            seed: One seed per program, or the first of consecutive ones; without it the streams go on.
            options: None are known.
        """
        generators, begun = [], []
        present: Sequence[np.random.Generator | None] = self._generators or [None] * self.num_envs
        for own, generator in zip(self._seeds(seed), present, strict=True):
            if own is not None or generator is None:
                generator = seeding.np_random(own)[0]
            generators.append(generator)
            begun.append(Episode(self.task, self.settings, task_seed_for(self.settings, own, generator)))
        self._generators, self._episodes, self._ended = generators, begun, list(begun)
        infos: dict[str, Any] = {}
        for index, episode in enumerate(begun):
            infos = self._add_info(infos, episode.info(), index)
        return self._observations(), infos

    def step(
        self, actions: Sequence[str]
    ) -> tuple[Texts, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Evaluate one program per episode; what ends is in `final_obs` and `final_info`, and begins anew.

        Raises `InfrastructureError` if the machine fails to evaluate one, again and again: no turn is taken then,
        and the step may be repeated once the machine is well.
        """
        if not self._generators:
            raise gym.error.ResetNeeded("call reset() before the first step()")
        if isinstance(actions, str | bytes | Mapping):
            raise TypeError(
                f"the actions are one {type(actions).__name__}; pass a tuple with a program for each episode"
            )
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} programs for num_envs={self.num_envs}")
        for action in actions:
            require_text(action)
        tasks = [episode.task for episode in self._episodes]
        evaluations = self._running_pool().evaluate_all(actions, tasks)
        self._ended = list(self._episodes)
        rewards = np.zeros(self.num_envs)
        infos: dict[str, Any] = {}
        for index, episode in enumerate(self._ended):
            rewards[index] = episode.record(actions[index], evaluations[index])
            info = episode.info()
            if episode.over:
                final = {"final_obs": episode.observation(), "final_info": info}
                infos = self._add_info(infos, final, index)
                task_seed = task_seed_for(self.settings, None, self._generators[index])
                self._episodes[index] = Episode(self.task, self.settings, task_seed)
                info = self._episodes[index].info()
            infos = self._add_info(infos, info, index)
        ended = np.array([episode.over for episode in self._ended])
        return self._observations(), rewards, ended, np.zeros_like(ended), infos

    def render(self) -> tuple[Any, ...] | None:
        if self.render_mode == "ansi":
            return tuple(self.task.text(evaluation) for evaluation in self.last_evaluations)
        if self.render_mode == "rgb_array":
            return tuple(self.task.image(evaluation) for evaluation in self.last_evaluations)
        return None

    def close_extras(self, **kwargs: Any) -> None:
        pool, self._pool = self._pool, None  # first, for an interrupt may come while it closes
        if pool is not None:
            pool.close()

    def _seeds(self, seed: Any) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if np.ndim(seed) == 0:
            first = operator.index(seed)
            return list(range(first, first + self.num_envs))
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for num_envs={self.num_envs}")
        return [plain_seed(single) for single in seed]

    def _observations(self) -> Texts:
        return tuple(episode.observation() for episode in self._episodes)

    def _add_info(
        self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int
    ) -> dict[str, Any]:
        """As Gymnasium's, but numbers stay numbers: NaN where there is none, so that the type never changes.

        Seeds stay Python's integers, of which none is too large.
        """
        if "task_seed" in env_info:
            vector_infos.setdefault("task_seed", np.full(self.num_envs, None))
        numbers = (*_SCORES, *self.task.metric_names)
        numeric = {k: np.nan if k in numbers and v is None else v for k, v in env_info.items()}
        return super()._add_info(vector_infos, numeric, env_num)

    def _running_pool(self) -> EvaluatorPool:
        if self._pool is None:
            self.closed = False  # or the next `close` would do nothing
            self._pool = EvaluatorPool(self.workers, confinement=self.confinement)
        return self._pool

    def __getstate__(self) -> dict[str, Any]:
        # Processes cannot be copied or pickled; the copy starts its own at its first step.
        return {**self.__dict__, "_pool": None}
