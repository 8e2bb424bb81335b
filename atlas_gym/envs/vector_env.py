"""Many programs at a time: a vector environment whose batch runs on a pool of evaluators.

Gymnasium's own vectorizers run one environment per copy. Here one object holds the episodes and one pool
does all the evaluations, results in the order of the actions: a program that hangs occupies one worker until
its own limit, and the others go on. Episodes reset in the step that ends them (SAME_STEP): the usual
NEXT_STEP would throw away every second program of a one-step episode.
"""

import os
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from atlas_gym.envs.cascade import Cascade, evaluate_all, evaluate_in_stages
from atlas_gym.envs.episode import Episode, EpisodeSettings
from atlas_gym.envs.program_env import program_space, prompt_space, task_seed_for
from atlas_gym.evaluation.pool import EvaluatorPool
from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.problem import Problem

Texts = tuple[str, ...]


class ProgramVectorEnv(VectorEnv):
    """A batch of episodes of one problem, evaluated together.

    Args:
        num_envs: Programs per step.
        workers: Evaluators in the pool; by default one per usable CPU, and at most one per program.
        cascade: Evaluate the batch in two stages. `info["full"]` says which programs went through both.
        turns, split, start, task_seed, confinement, render_mode, constants: As for `ProgramEnv`.
    """

    problem_type: type[Problem]
    """The problem that a subclass poses."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        workers: int | None = None,
        cascade: Cascade | None = None,
        turns: int = 1,
        split: str = "train",
        start: str = "named",
        task_seed: int | None = None,
        confinement: str | Sequence[str] = "default",
        render_mode: str | None = None,
        **constants: Any,
    ):
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["ansi", "rgb_array"]}
        self.problem = self.problem_type.from_keywords(**constants)
        self.num_envs = num_envs
        self.workers = workers or min(num_envs, len(os.sched_getaffinity(0)))
        self.cascade = cascade
        self.settings = EpisodeSettings(turns, split, start, task_seed)
        self.confinement = confinement
        self.render_mode = render_mode
        self._pool: EvaluatorPool | None = None
        self._generators: list[np.random.Generator] = []
        self._episodes = [Episode(self.problem, self.settings, task_seed=0) for _ in range(num_envs)]
        self._ended = list(self._episodes)
        self.single_action_space = program_space(self.problem, self._episodes[0].task.limits.source_chars)
        self.single_observation_space = prompt_space(self.single_action_space)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    @property
    def last_evaluations(self) -> tuple[Evaluation | None, ...]:
        """The evaluation of each of the last step's programs, with times and traces."""
        return tuple(episode.last for episode in self._ended)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Texts, dict[str, Any]]:
        """Pose new tasks.

        Args:
            seed: One seed per program, or the first of consecutive ones; without it the streams go on.
            options: None are known; accepted as Gymnasium's interface asks.
        """
        seeds = self._seeds(seed)
        if not self._generators:
            self._generators = [seeding.np_random()[0] for _ in range(self.num_envs)]
        infos: dict[str, Any] = {}
        for index, single in enumerate(seeds):
            if single is not None:
                self._generators[index] = seeding.np_random(single)[0]
            self._begin(index, single)
            infos = self._add_info(infos, self._episodes[index].info(), index)
        self._ended = list(self._episodes)
        return self._observations(), infos

    def step(
        self, actions: Sequence[str]
    ) -> tuple[Texts, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Evaluate one program per episode; what ends is in `final_obs` and `final_info`, and begins anew."""
        if not self._generators:
            raise gym.error.ResetNeeded("call reset() before the first step()")
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} programs for num_envs={self.num_envs}")
        evaluations, full = self._evaluate(actions)
        self._ended = list(self._episodes)
        rewards = np.zeros(self.num_envs)
        infos: dict[str, Any] = {}
        for index, episode in enumerate(self._ended):
            rewards[index] = episode.record(actions[index], evaluations[index])
            info = {**episode.info(), "full": full[index]}
            if episode.over:
                final = {"final_obs": episode.observation(), "final_info": info}
                infos = self._add_info(infos, final, index)
                self._begin(index, None)
                info = {**self._episodes[index].info(), "full": full[index]}
            infos = self._add_info(infos, info, index)
        ended = np.array([episode.over for episode in self._ended])
        return self._observations(), rewards, ended, np.zeros_like(ended), infos

    def render(self) -> tuple[Any, ...] | None:
        """Draw the last evaluation of every episode, as `render_mode` says."""
        if self.render_mode == "ansi":
            return tuple(self.problem.text(evaluation) for evaluation in self.last_evaluations)
        if self.render_mode == "rgb_array":
            return tuple(self.problem.image(evaluation) for evaluation in self.last_evaluations)
        return None

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the pool's processes."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None or isinstance(seed, int):
            return [None if seed is None else seed + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for num_envs={self.num_envs}")
        return list(seed)

    def _begin(self, index: int, seed: int | None) -> None:
        task_seed = task_seed_for(self.settings, seed, self._generators[index])
        self._episodes[index] = Episode(self.problem, self.settings, task_seed)

    def _observations(self) -> Texts:
        return tuple(episode.observation() for episode in self._episodes)

    def _evaluate(self, programs: Sequence[str]) -> tuple[list[Evaluation], list[bool]]:
        if self._pool is None:
            self._pool = EvaluatorPool(self.workers, confinement=self.confinement)
        tasks = [episode.task for episode in self._episodes]
        if self.cascade is None:
            return evaluate_all(self._pool, programs, tasks), [True] * self.num_envs
        short = [self.problem.short_task(e.task_seed, self.settings.split) for e in self._episodes]
        return evaluate_in_stages(self._pool, programs, short, tasks, self.cascade)

    def __getstate__(self) -> dict[str, Any]:
        # Processes cannot be copied or pickled; the copy starts its own at its first step.
        return {**self.__dict__, "_pool": None}
