"""The environment behind every id of this package: a program in, its score out.

The evaluator (a fork server with confined workers) is started at the first step; environments of one process share it,
and the last one to be closed ends it. Copies and pickles of an environment take their own share.
"""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import gymnasium as gym
import numpy as np

from atlas_gym.envs.episode import Episode, EpisodeSettings, plain_seed, require_text
from atlas_gym.envs.spaces import Source
from atlas_gym.evaluation.evaluator import Evaluator, check_confinement, shared_evaluator
from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.registry import find_task

_TEXT_BESIDE = 32768
"""Room for a task's diagnosis, and for the words around it."""
_LONGEST_BLOCK = 3
"""Actions: an incumbent is as long as one, and each of its two fences may be if it is made of backticks."""


def task_seed_for(settings: EpisodeSettings, seed: int | None, rng: np.random.Generator) -> int:
    """The task of a new episode: the fixed one, else the seed given to reset, else a random one."""
    if settings.task_seed is not None:
        return settings.task_seed
    return int(rng.integers(2**48)) if seed is None else seed


class ProgramEnv(gym.Env[str, str]):
    """The environment of a task: the action is a program. What programs do is in the documentation of the task's class.

    An episode is terminated after `turns` programs and never truncated. `info` has the same keys at every reset and
    step: see `Episode.info`.

    Args:
        task: What `find_task` finds the task by; `gymnasium.make` fills it in.
        turns: Programs per episode.
        split: `train`, or `held_out`, for confirmation: other tasks by the same law.
        start: The program shown before any has been scored: `named`, `inlined` or `scratch`.
        task_seed: Pose this task in every episode, whatever the seed given to `reset`.
        confinement: `default` for the layers that Linux gives without root, `unconfined` for none, or the
            names of the layers that must be achieved (`python -m atlas_gym doctor` lists them).
        render_mode: `ansi`, `rgb_array` or None.
        constants: The task's own keywords: a `preset` and what differs from it.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        *,
        task: str,
        turns: int = 1,
        split: str = "train",
        start: str = "named",
        task_seed: int | None = None,
        confinement: str | Sequence[str] = "default",
        render_mode: str | None = None,
        **constants: Any,
    ):
        self.task = find_task(task).from_keywords(**constants)
        self.settings = EpisodeSettings(turns, split, start, task_seed)
        check_confinement(confinement)
        if render_mode not in (None, *(modes := self.metadata["render_modes"])):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or one of {', '.join(modes)}")
        self.confinement = confinement
        self.render_mode = render_mode
        self._evaluator: Evaluator | None = None
        self._needs_reset = True
        # Building an episode checks split, start and seed now rather than at the first reset.
        self._episode = Episode(self.task, self.settings, task_seed or 0)
        limits, starts = self.task.limits, self.task.starts.values()
        block = _LONGEST_BLOCK * limits.source_chars
        prompt = len(self.task.description) + block + limits.error_chars + _TEXT_BESIDE
        self.action_space = Source(limits.source_chars, pool=starts)
        self.observation_space = Source(prompt, pool=starts)

    @property
    def last_evaluation(self) -> Evaluation | None:
        """All about the last program, also what `info` leaves out: times, memory, layers, traces."""
        return self._episode.last

    def reset(
        self, *, seed: SupportsIndex | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Pose a new task. One that is refused leaves the episode as it was.

        Args:
            seed: Poses exactly `atlas_gym.make_task(..., seed=seed)`; without it, the next task of the
                current stream.
            options: None are known.
        """
        seed = plain_seed(seed)
        super().reset(seed=seed)
        task_seed = task_seed_for(self.settings, seed, self.np_random)
        self._episode, self._needs_reset = Episode(self.task, self.settings, task_seed), False
        return self._episode.observation(), self._episode.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Evaluate a program on the current task; the reward is its score, or the worst score if it fails. The fence of
        a code block around it is taken off.

        Raises TypeError for an action that is no text, and `InfrastructureError` if the machine fails to evaluate it,
        again and again: no turn is taken then, and the step may be repeated once the machine is well.
        """
        if self._needs_reset:
            raise gym.error.ResetNeeded("the episode is over: call reset() before the next step()")
        require_text(action)
        if self._evaluator is None:
            self._evaluator = shared_evaluator(self.confinement)
        evaluation = self._evaluator.evaluate(action, self._episode.task)
        reward = self._episode.record(action, evaluation)
        self._needs_reset = self._episode.over
        return self._episode.observation(), reward, self._episode.over, False, self._episode.info()

    def render(self) -> Any:
        if self.render_mode == "ansi":
            return self.task.text(self.last_evaluation)
        if self.render_mode == "rgb_array":
            return self.task.image(self.last_evaluation)
        gym.logger.warn('render() was called without a render mode; pass render_mode="ansi" or "rgb_array"')
        return None

    def close(self) -> None:
        """Give up the evaluator, whose processes end unless another environment uses them."""
        self._evaluator = None

    def __getstate__(self) -> dict[str, Any]:
        # Processes cannot be copied or pickled; the copy asks for the evaluator at its first step.
        return {**self.__dict__, "_evaluator": None}
