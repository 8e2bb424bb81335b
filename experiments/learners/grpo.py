"""GRPO with TRL: the model completes a program, the environment scores whole batches.

    python -m experiments.learners.grpo --steps 2

The prompt is the head of the task's start; the model writes how its alternatives are scored, or else what it returns.
With the embedded model this runs on a laptop's CPU and shows that the pieces fit; it is no recipe for good programs.
"""

import argparse
import tempfile
from collections.abc import Sequence
from typing import Any

import atlas_gym
from agents.models.loading import resolve_model
from atlas_gym.bridges.answer import program_in
from atlas_gym.bridges.trl import ProgramReward
from atlas_gym.optional import require
from experiments.learners.objective import Setting

ENV_ID = "ATLAS-Bandit-v0"
HOLES = "    scores =", "    return"
"""Where a program is cut off: at the last line that begins like the first of these that there is."""


def prompt(env_id: str = ENV_ID) -> str:
    """The start of a task up to the line that scores its alternatives, or that returns.

    Raises ValueError if it has neither.
    """
    program = atlas_gym.make_task(env_id).starts["named"]
    for hole in HOLES:
        head, found, _ = program.rpartition(f"\n{hole}")
        if found:
            return head + found
    raise ValueError(f"the start of {env_id} has no line that begins with {' or '.join(map(repr, HOLES))}")


class Remembering(ProgramReward):
    """The reward function, which also keeps the best program that it has seen."""

    def __init__(self, env_id: str, **keywords: Any):
        super().__init__(env_id, prefix=prompt(env_id), **keywords)
        self.evaluations = 0
        self.best = ("", float("-inf"))
        """A program and its score."""

    def __call__(
        self, completions: Sequence[Any], seed: Sequence[int] | None = None, **columns: Any
    ) -> list[float]:
        """See `ProgramReward`."""
        scores = super().__call__(completions, seed, **columns)
        self.evaluations += len(scores)
        pairs = [(self.prefix + program_in(text), s) for text, s in zip(completions, scores, strict=True)]
        self.best = max(self.best, *pairs, key=lambda pair: pair[1])
        return scores


def learn_grpo(setting: Setting, budget: int, seed: int, group: int = 8) -> tuple[str, int]:
    """Tune the embedded model within a budget of evaluations; the best program it wrote on the way, and the
    evaluations it took. No template: the model writes the line that scores the arms, and may write more."""
    reward = Remembering(setting.env_id, **setting.constants)
    train("embedded", budget // group, group, reward=reward, seed=seed, tasks=setting.tasks)
    return reward.best[0], reward.evaluations


def train(
    model: str,
    steps: int,
    group: int = 4,
    tokens: int = 24,
    *,
    env_id: str = ENV_ID,
    reward: ProgramReward | None = None,
    seed: int = 0,
    tasks: int | None = None,
    **constants: Any,
) -> list[dict[str, Any]]:
    """Train for some steps and return the trainer's log, an entry per step.

    Args:
        model: a folder, a name, or `embedded`.
        steps: optimiser steps, a prompt each.
        group: completions per prompt.
        tokens: length of a completion.
        env_id: the task.
        reward: the reward function, which is closed at the end; default: one of this environment.
        seed: of the sampling.
        tasks: how many training tasks take turns; default: a new one each step.
        constants: the environment's own keywords.
    """
    trl = require("trl", "learn")
    datasets = require("datasets", "learn")
    reward = reward or ProgramReward(env_id, prefix=prompt(env_id), **constants)
    rows = {"prompt": [reward.prefix] * steps, "seed": [step % (tasks or steps) for step in range(steps)]}
    with tempfile.TemporaryDirectory() as folder:
        settings = trl.GRPOConfig(
            output_dir=folder,
            max_steps=steps,
            seed=seed,
            per_device_train_batch_size=group,
            num_generations=group,
            max_completion_length=tokens,
            temperature=0.8,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},  # bfloat16 is emulated, slowly, on most CPUs
        )
        trainer = trl.GRPOTrainer(
            model=str(resolve_model(model)),
            args=settings,
            reward_funcs=reward,
            train_dataset=datasets.Dataset.from_dict(rows),
        )
        try:
            trainer.train()
        finally:
            reward.close()
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def main() -> None:
    """Train and print what each step earned."""
    parser = argparse.ArgumentParser(prog="python -m experiments.learners.grpo", description=__doc__)
    parser.add_argument("--model", default="embedded", help="a folder, a name, or the embedded model")
    parser.add_argument("--env-id", default=ENV_ID, help=f"the task (default {ENV_ID})")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--group", type=int, default=4, help="completions per prompt (default 4)")
    options = parser.parse_args()
    log = train(options.model, options.steps, options.group, env_id=options.env_id)
    for number, entry in enumerate(log, start=1):
        spread = f"standard deviation in a group {entry['reward_std']:.3f}"
        print(f"step {number}: mean reward {entry['reward']:.3f}, {spread}")


if __name__ == "__main__":
    main()
