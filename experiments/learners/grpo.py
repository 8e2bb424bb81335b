"""GRPO with TRL: the model rewrites a line of a program, and is rewarded by what that gains over the program.

    python -m atlas_gym.experiments.learners.grpo --steps 2

The prompt is the starting program up to its last assignment, or to its last `return` if it assigns nothing; the
completion is the rest of that line. Rewards are graded:

    failed < a copy < worse than the start < better than the start

and clipped differences to the start's score, because the score itself as a reward taught nothing in published work
(CALM, Huang et al., 2025, arXiv 2505.12285). With the embedded model this runs on a laptop's CPU and shows that the
pieces fit; it is no recipe for good programs.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.arguments import Parser, at_least_one
from atlas_gym.experiments.learners.changes import Change, changes_from_defaults
from atlas_gym.experiments.learners.ledger import BudgetSpent, Ledger, Trial
from atlas_gym.optional import require

FAILED, COPY, WORST, BEST = -1.0, -0.75, -0.5, 1.0
"""Rewards of a program that fails and of a copy, and the bounds of all others."""

_HOLES = [re.compile(rf"(?s)(.*\n {{4}}{begin})[^\n]*(\n.*)") for begin in (r"\w+ =", "return")]
"""Where a program is rewritten: at the last line that matches the first of these that matches at all."""


SETTINGS: Mapping[str, tuple[Any, str]] = {
    "max_completion_length": (24, "the rest of a line"),
    "temperature": (0.8, "assumed, not measured: so small a model rambles at 1"),
    "use_cpu": (True, "there may be no GPU"),
    "bf16": (False, "emulated, slowly, on most CPUs"),
    "model_init_kwargs": ({"dtype": "float32"}, "the same"),
    "gradient_checkpointing": (False, "the model is small"),
}
"""Where settings differ from TRL's own, and why."""


def halves(program: str) -> tuple[str, str]:
    """What stands before and behind the right side of the last assignment, or else of the last return.

    Raises:
        ValueError: there is neither.
    """
    for hole in _HOLES:
        if found := hole.fullmatch(program):
            return found[1], found[2]
    raise ValueError("the program has neither an assignment nor a return to rewrite")


def graded(score: float | None, parent: float, copy: bool) -> float:
    """The reward of a program.

    Args:
        score: its score, None if it failed.
        parent: the score of the program in the prompt; differences are shares of it, or as they are if it is 0.
        copy: whether the program is known; one that scores exactly like the one in the prompt counts as known, too.
    """
    if score is None:
        return FAILED
    if copy or score == parent:
        return COPY
    return min(BEST, max(WORST, (score - parent) / (abs(parent) or 1.0)))


class GradedReward:
    """A reward function of TRL's: scores completions, a candidate of the ledger each."""

    def __init__(self, ledger: Ledger) -> None:
        self.__name__ = "graded"  # GRPOTrainer names its metrics by this
        self._ledger = ledger
        self._head, self._tail = halves(ledger.start)
        self._parent = ledger.best[1]
        self._seen = {ledger.start}

    def __call__(
        self, completions: Sequence[str], completion_ids: Sequence[Sequence[int]] = (), **columns: Any
    ) -> list[float]:
        """A reward per completion."""
        self._ledger.written(sum(map(len, completion_ids)))
        return [self._reward(text) for text in completions]

    def _reward(self, text: str) -> float:
        program = self._head + text.split("\n")[0].rstrip() + self._tail
        copy = program in self._seen
        self._seen.add(program)
        if not self._ledger.ask():
            raise BudgetSpent
        return graded(self._ledger.score(program).score, self._parent, copy)


def learn_grpo(ledger: Ledger, seed: int, group: int = 8) -> None:
    """Tune the embedded model while it spends the ledger's budget, in whole groups; ValueError if it pays for none."""
    if ledger.trial.budget < group:
        raise ValueError(
            f"a budget of {ledger.trial.budget} candidates does not pay for one group of {group}"
        )
    train(ledger, "embedded", ledger.trial.budget // group, group, seed=seed)


def changes(trial: Trial) -> dict[str, Change]:
    """How the settings differ from TRL's."""
    return changes_from_defaults(require("trl", "learn").GRPOConfig, SETTINGS)


def train(ledger: Ledger, model: str, steps: int, group: int = 8, seed: int = 0) -> list[dict[str, Any]]:
    """Train for some steps and return the trainer's log, an entry per step.

    Args:
        ledger: scores programs; holds the starting program.
        model: a folder, a name, or `embedded`.
        steps: optimiser steps, a prompt each.
        group: completions per prompt.
        seed: of the sampling.
    """
    trl = require("trl", "learn")
    datasets = require("datasets", "learn")
    prompt, _ = halves(ledger.start)
    with tempfile.TemporaryDirectory() as folder:
        settings = trl.GRPOConfig(
            output_dir=folder,
            max_steps=steps,
            seed=seed,
            per_device_train_batch_size=group,
            num_generations=group,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            **{name: value for name, (value, _) in SETTINGS.items()},
        )
        trainer = trl.GRPOTrainer(
            model=str(resolve_model(model)),
            args=settings,
            reward_funcs=GradedReward(ledger),
            train_dataset=datasets.Dataset.from_dict({"prompt": [prompt] * steps}),
        )
        trainer.train()
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def main() -> None:
    """Train and print what each step earned."""
    parser = Parser(prog="python -m atlas_gym.experiments.learners.grpo", description=__doc__)
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--model", default="embedded", help="a folder, a name, or the embedded model")
    parser.add_argument("--steps", type=at_least_one, default=2)
    parser.add_argument("--group", type=int, default=4, help="completions per prompt (default 4)")
    options = parser.parse_args()
    if options.group < 2:
        parser.error("--group is at least 2: a completion is compared with the others of its prompt")
    trial = Trial(options.env_id, 0, options.steps * options.group)
    with Ledger(trial) as ledger:
        log = train(ledger, options.model, options.steps, options.group)
    for number, entry in enumerate(log, start=1):
        spread = f"standard deviation in a group {entry['reward_std']:.3f}"
        print(f"step {number}: mean reward {entry['reward']:.3f}, {spread}")
    print(f"\n{ledger.best[0]}\nbest score {ledger.best[1]:.4f}")


if __name__ == "__main__":
    main()
