"""TRL's GRPO: the model rewrites a line of a program, and is rewarded by what that gains over the program.

    python -m atlas_gym.experiments.learners.grpo --steps 2

The prompt is the starting program up to its last assignment, or to its last `return` if it assigns nothing; the
completion is the rest of that line. With the embedded model this runs on a laptop's CPU and shows that the pieces fit;
it is no recipe for good programs. For prompts and whole programs of your own see `atlas_gym.bridges.trl.ProgramReward`.
Needs `pip install "atlas-gym[learn]"`.
"""

import argparse
import re
import tempfile
from typing import Any, cast

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from atlas_gym import ProgramTask, make_task
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.tasks.constants import constants_from

SITES = [re.compile(rf"(?s)(.*\n {{4}}{begin})[^\n]*(\n.*)") for begin in (r"\w+ =", "return")]
"""Where a program is rewritten: at the last line that matches the first of these that matches at all."""
FAILED, COPY = -1.0, -0.5
"""Rewards of a program that does not run and of one that was written before; the others are between 0 and 1."""


def halves(program: str) -> tuple[str, str]:
    """The program before and behind the right side of the line that is rewritten; ValueError if there is none."""
    for site in SITES:
        if found := site.fullmatch(program):
            return found[1], found[2]
    raise ValueError("the program has neither an assignment nor a return to rewrite")


class Reward:
    """A reward function of TRL's: by what share a completion's program reduces the starting program's loss."""

    def __init__(self, task: ProgramTask, pool: EvaluatorPool) -> None:
        self.__name__ = "gain"  # GRPOTrainer names its metrics by this
        self.task, self.pool = task, pool
        start = task.starts["named"]
        self.head, self.tail = halves(start)
        self.seen, level = {start}, pool.evaluate(start, task).score
        if level is None:
            raise ValueError("the starting program does not run")
        self.level = level
        self.best = (start, level)

    def __call__(self, completions: list[str], **columns: Any) -> list[float]:
        """A reward per completion."""
        programs = [self.head + text.split("\n")[0].rstrip() + self.tail for text in completions]
        rewards, tasks = [], [self.task] * len(programs)
        for program, evaluation in zip(programs, self.pool.evaluate_all(programs, tasks), strict=True):
            score, copy = evaluation.score, program in self.seen
            self.seen.add(program)
            if score is not None and score > self.best[1]:
                self.best = (program, score)
            if score is None or copy:
                rewards.append(FAILED if score is None else COPY)
            else:
                gain = (score - self.level) / max(abs(self.level), 1e-9)
                rewards.append(min(1.0, max(0.0, gain)))
        return rewards


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Train; print the best program and return the trainer's log, an entry per step."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.learners.grpo")
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment")
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--model", default="embedded", help="a folder, a name, or the embedded model")
    parser.add_argument("--steps", type=int, default=2, help="optimiser steps, a prompt each (default 2)")
    parser.add_argument("--group", type=int, default=8, help="completions per prompt (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="of the sampling and of the task")
    options = parser.parse_args(arguments)
    task = make_task(options.env_id, seed=options.seed, **constants_from(options.constants))
    with EvaluatorPool(2) as pool, tempfile.TemporaryDirectory() as folder:
        reward = Reward(task, pool)
        settings = GRPOConfig(
            output_dir=folder,
            max_steps=options.steps,
            seed=options.seed,
            per_device_train_batch_size=options.group,
            num_generations=options.group,
            max_completion_length=24,  # the rest of a line
            temperature=0.8,
            use_cpu=True,
            bf16=False,  # emulated, slowly, on most CPUs
            model_init_kwargs={"dtype": "float32"},
            gradient_checkpointing=False,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
        )
        trainer = GRPOTrainer(
            model=str(resolve_model(options.model)),
            args=settings,
            reward_funcs=cast(Any, reward),
            train_dataset=Dataset.from_dict({"prompt": [reward.head] * options.steps}),
        )
        trainer.train()
    print(f"{reward.best[0]}\nscore {reward.best[1]:.4f}, the start {reward.level:.4f}")
    return [entry for entry in trainer.state.log_history if "reward" in entry]


if __name__ == "__main__":
    main()
