"""GRPO with TRL on ATLAS-Bandit-v0: the model completes a program, the environment scores whole batches.

    python -m experiments.learners.grpo --steps 2

The prompt is the head of the paper's initial program; the model writes how arms are scored and chosen. With the
embedded model this runs on a laptop's CPU and shows that the pieces fit; it is no recipe for good programs.
"""

import argparse
import tempfile
from typing import Any

import atlas_gym
from agents.model import resolve_model
from atlas_gym.bridges.extras import require
from atlas_gym.bridges.trl import ProgramReward

ENV_ID = "ATLAS-Bandit-v0"
HOLE = "    scores ="


def prompt() -> str:
    """The initial program up to the line that scores the arms."""
    program = atlas_gym.task_spec(ENV_ID).starts["named"]
    return program[: program.index(HOLE)] + HOLE


def train(model: str, steps: int, group: int = 4, tokens: int = 24, **constants: Any) -> list[dict[str, Any]]:
    """Train for some steps and return the trainer's log, an entry per step."""
    trl = require("trl", "learn")
    datasets = require("datasets", "learn")
    reward = ProgramReward(ENV_ID, prefix=prompt(), **constants)
    rows = {"prompt": [prompt()] * steps, "seed": list(range(steps))}
    with tempfile.TemporaryDirectory() as folder:
        settings = trl.GRPOConfig(
            output_dir=folder,
            max_steps=steps,
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
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--group", type=int, default=4, help="completions per prompt (default 4)")
    options = parser.parse_args()
    for number, entry in enumerate(train(options.model, options.steps, options.group), start=1):
        print(f"step {number}: reward {entry['reward']:.3f} ± {entry['reward_std']:.3f}")


if __name__ == "__main__":
    main()
