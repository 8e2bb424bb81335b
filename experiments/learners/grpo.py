"""TRL's GRPO on a task of your own: a small model learns to finish a program's line, and its mean reward rises.

    python -m atlas_gym.experiments.learners.grpo

The prompt is two programs and a third up to `return past`; the completion is the rest of that line, and the reward the
score of the last program. Some six in ten lines of the untuned model fail, the others differ in score: both is learned.
Put your own task in the place of `Sales`, and programs of its in `HEAD`. Where all completions of a group have the
same reward, nothing is learned: try prompts before you train. Needs `pip install "atlas-gym[learn]"`.
"""

import argparse
import tempfile
from typing import Any, cast

import numpy as np
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

import atlas_gym
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.bridges.trl import ProgramReward


class Sales(atlas_gym.ProgramTask, id="Sales-v0"):
    """past: float64 array, the sales of 28 days. Return those of the next day. The score is minus the error."""

    start = "def forecast(past):\n    return past[-1]\n"

    def instances(self, rng: np.random.Generator) -> Any:
        for _ in range(100):
            yield np.tile(rng.random(7), 5)[:29] + rng.normal(0, 0.2, 29)

    def score(self, program: Any, sales: Any) -> Any:
        return -abs(program(sales[:28]).number() - sales[28])


HEAD = """def forecast(past):
    return past[-2:].mean()


def forecast(past):
    return past[-1]


def forecast(past):
    return past"""
"""Two programs to go by, and a third to be finished."""


class Reward(ProgramReward):
    """The score of the program that a completion makes of `HEAD`; a failure is a little worse than useless."""

    def __init__(self) -> None:
        super().__init__("Sales-v0", prefix=HEAD, workers=2)
        self.best = ("", self.task.worst_score)

    def __call__(self, completions: Any, seed: Any = None, **columns: Any) -> list[float]:
        lines = [text.split("\n")[0] for text in completions]
        rewards = super().__call__([line + "\n" for line in lines], seed)
        self.best = max(self.best, *zip(lines, rewards, strict=True), key=lambda found: found[1])
        return rewards


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Train; print each step and the best line, and return the trainer's log, an entry per step."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.learners.grpo")
    parser.add_argument("--model", default="embedded", help="a folder, a name, or the embedded model")
    parser.add_argument("--steps", type=int, default=20, help="optimiser steps (default 20)")
    parser.add_argument("--group", type=int, default=8, help="completions of a step (default 8)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    folder = resolve_model(options.model)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    # A completion ends with its line.
    vocabulary = tokenizer.get_vocab()
    model.generation_config.eos_token_id = [
        vocabulary[token] for token in vocabulary if token.startswith("Ċ")
    ]
    # Adapters in the upper third alone: the backward pass ends there.
    layers = model.config.num_hidden_layers
    upper = [*range(2 * layers // 3, layers)]
    places = ["q_proj", "v_proj", "up_proj", "down_proj"]
    lora = LoraConfig(
        r=16, lora_alpha=32, target_modules=places, layers_to_transform=upper, task_type="CAUSAL_LM"
    )
    reward = Reward()
    with tempfile.TemporaryDirectory() as output:
        settings = GRPOConfig(
            output_dir=output,
            max_steps=options.steps,
            seed=options.seed,
            per_device_train_batch_size=options.group,
            num_generations=options.group,
            max_completion_length=12,
            temperature=0.7,
            top_k=20,
            learning_rate=5e-4,
            lr_scheduler_type="constant",
            use_cpu=True,
            bf16=False,  # emulated, slowly, on most CPUs
            gradient_checkpointing=False,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
        )
        trainer = GRPOTrainer(
            model=model,
            args=settings,
            processing_class=tokenizer,
            reward_funcs=cast(Any, reward),
            train_dataset=Dataset.from_dict({"prompt": [HEAD] * options.steps}),
            peft_config=lora,
        )
        trainer.train()
    reward.close()
    print(f"best line:{reward.best[0]}  score {reward.best[1]:.4f}")
    return [entry for entry in trainer.state.log_history if "reward" in entry]


if __name__ == "__main__":
    main()
