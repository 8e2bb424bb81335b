"""TRL's GRPOTrainer on the environments (needs the extra `learn`, but nothing here imports TRL).

`ProgramReward` is a reward function whose batch runs on a pool. `ProgramEnvironment` is an `environment_factory`: a
class without arguments whose public methods are tools; subclass it to choose the environment.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.evaluation import EvaluatorPool, InfrastructureError
from atlas_gym.program_text import program_in
from atlas_gym.tasks.registry import make_task


class ProgramReward:
    """Scores completions as programs; give it to `GRPOTrainer(reward_funcs=...)`.

    A dataset column `seed` chooses the task of each prompt, so that all completions of a group are compared on the
    same random numbers; without it, or where it is None, they play task 0.

    Args:
        env_id: A registered id.
        split: Family of tasks.
        prefix: Text that is put before each completion: what a completing model was given of the program.
        workers: Evaluations at a time.
        constants: The environment's own keywords.
    """

    def __init__(
        self, env_id: str, *, split: str = "train", prefix: str = "", workers: int = 1, **constants: Any
    ):
        self.__name__ = f"score_{env_id}"  # GRPOTrainer names its metrics by this
        self.task = make_task(env_id, **constants)
        self.split = split
        self.prefix = prefix
        self._pool = EvaluatorPool(workers)

    def __call__(
        self,
        completions: Sequence[str | list[dict[str, Any]]],
        seed: Sequence[int | None] | None = None,
        **columns: Any,
    ) -> list[float]:
        """One score per completion, the worst score for a program that fails."""
        seeds = [None] * len(completions) if seed is None else seed
        tasks = [self.task.at(0 if number is None else int(number), self.split) for number in seeds]
        programs = [self.prefix + program_in(completion) for completion in completions]
        evaluations = self._pool.evaluate_all(programs, tasks)
        return [self.task.worst_score if e.score is None else e.score for e in evaluations]

    def close(self) -> None:
        self._pool.close()


class ProgramEnvironment:
    """An environment for `GRPOTrainer(environment_factory=...)`, with `submit` as the model's tool.

    Example:
        class Short(ProgramEnvironment):
            constants = {"horizon": 500}
    """

    env_id: ClassVar[str] = "ATLAS-Bandit-v0"
    """The task that is posed: an id or another reference."""
    turns: ClassVar[int] = 4
    """Programs that may be submitted per episode."""
    constants: ClassVar[dict[str, Any]] = {}
    """The environment's own keywords."""

    def __init__(self) -> None:
        self._env = ProgramEnv(task=self.env_id, turns=self.turns, **self.constants)
        self._best = self._env.task.worst_score
        self._over = False
        self._spoiled: InfrastructureError | None = None

    def reset(self, seed: int | None = None, **columns: Any) -> str:
        """Pose a task and return its prompt; `seed` may be a column of the dataset."""
        prompt, _ = self._env.reset(seed=seed)
        self._best, self._over, self._spoiled = self._env.task.worst_score, False, None
        return prompt

    def submit(self, program: str) -> str:
        """Evaluate a Python program on the task and return the feedback on it.

        Args:
            program: The complete source of the program.

        Returns:
            The score and the feedback, or the error that the program raised.
        """
        if self._over:
            return "No more programs: the episode is over."
        try:
            _, reward, self._over, _, info = self._env.step(program)
        except InfrastructureError as error:
            self._spoiled = error  # the trainer shows a tool's exceptions to the model and goes on
            raise
        self._best = max(self._best, float(reward))
        return info["feedback"]

    def get_reward(self) -> float:
        """Score of the best program submitted, the worst score if none ran.

        Raises `InfrastructureError` if the machine failed to evaluate one: no reward is due then.
        """
        if self._spoiled is not None:
            raise self._spoiled
        return self._best
