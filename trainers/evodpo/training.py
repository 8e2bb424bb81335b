"""The training part of a phase: pairs in a decided order, a trainer, the policy's adapter on the way.

Epochs are unrolled into the order of the data (each epoch shuffled anew, prompts that begin alike kept together
for packing) and the trainer walks through it from beginning to end, so that packed and stock training see the same
batches and the order is a function of the seed.
"""

import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from transformers import PrinterCallback, TrainerCallback
from trl import DPOConfig

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.token_trie import families
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.evodpo import processes
from atlas_gym.trainers.evodpo.distributed_dpo import DistributedDPOTrainer
from atlas_gym.trainers.evodpo.packed_dpo import (
    PackedDPOTrainer,
    PreparedDPOTrainer,
    borrowed,
    pair_dataset,
)
from atlas_gym.trainers.evodpo.packing import batch_order, encode_branch
from atlas_gym.trainers.evodpo.settings import SUPERVISED, TrainingSettings

# transformers before 5.20, which vLLM wants, has it by its old name.
_CHECKPOINTING = next(
    name
    for name in ("activation_checkpointing", "gradient_checkpointing")
    if name in DPOConfig.__dataclass_fields__
)


@dataclass(frozen=True)
class StepRecord:
    """One optimiser step, averages over its pairs."""

    step: int
    """Counted from 1."""
    loss: float
    """DPO's is ln 2 where policy and reference agree."""
    margin: float
    """β times the difference of the log-ratios of chosen and rejected."""
    accuracy: float
    """Share of pairs with a positive margin."""
    chosen_reward: float
    """β · log π/π_ref of the chosen completions."""
    rejected_reward: float
    """The same of the rejected ones."""
    grad_norm: float
    """Before clipping."""
    entropy: float
    """Entropy of the policy's next-token distribution along the completions, nats."""


@dataclass
class Training:
    """What a training leaves besides the trained adapter."""

    steps: list[StepRecord] = field(default_factory=list)
    """Every optimiser step."""
    checkpoints: dict[str, int] = field(default_factory=dict)
    """Intermediate checkpoints: adapter name → step after which it was taken."""
    kls: list[tuple[int, float]] = field(default_factory=list)
    """(step, K̂L) of each look at it, nats per token."""
    pairs: int = 0
    """Pairs trained on, per epoch."""
    dropped: int = 0
    """Pairs left out because they were too long."""
    tokens: int = 0
    """Tokens that went through the model forwards, padding and the reference's passes included."""

    def count(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Forward hook that adds up `tokens`."""
        self.tokens += kwargs["input_ids"].numel()


def train(
    policy: Policy,
    examples: Sequence[PreferencePair],
    settings: TrainingSettings,
    *,
    checkpoints: int,
    rng: np.random.Generator,
    seed: int,
    on_step: Callable[[StepRecord], None] | None = None,
    divergence: Callable[[], float] | None = None,
    max_kl: float = math.inf,
) -> Training:
    """Tune the adapter `POLICY` against `REFERENCE` until its K̂L has grown by the target, or is `max_kl`, or the epochs
    end.

    At `settings.checks` evenly spaced steps of each epoch `divergence` measures K̂L (None: not measured, all epochs are
    trained). The last `checkpoints` of the policies at these steps, before the final one, become adapters
    `candidate-1`, ….

    Raises:
        ValueError: no pair is short enough, or there is none.
    """
    kept = [example for example in examples if _length(policy, example) <= settings.max_tokens]
    if not kept:
        raise ValueError(f"none of the {len(examples)} examples fits into max_tokens = {settings.max_tokens}")
    # What begins alike trains together.
    alike = families([encode_prompt(policy.tokenizer, example.prompt) for example in kept])
    groups = sorted(sorted(group) for group in alike)
    order = [i for _ in range(settings.epochs) for i in batch_order(groups, settings.batch_size, rng)]
    result = Training(pairs=len(kept), dropped=len(examples) - len(kept))
    steps = math.ceil(len(order) / settings.batch_size)
    goal = min(divergence() + settings.target_kl, max_kl) if settings.target_kl and divergence else math.inf
    looks = settings.checks * settings.epochs
    marks = {round(steps * k / looks) for k in range(1, looks + 1)} - {steps}
    watch = _Watch(policy, result, marks, checkpoints, on_step, divergence, goal)
    with tempfile.TemporaryDirectory() as folder, borrowed(policy.model) as model, warnings.catch_warnings():
        counter = model.register_forward_pre_hook(result.count, with_kwargs=True)
        # TRL 1.16 asks transformers for a property by its old name.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        trainer = _trainer(policy, [kept[i] for i in order], settings, folder, seed)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(watch)
        try:
            trainer.train()
        finally:
            counter.remove()
    result.tokens = int(processes.totals([result.tokens], policy.device)[0])
    return result


def _trainer(
    policy: Policy, pairs: Sequence[PreferencePair], settings: TrainingSettings, folder: str, seed: int
) -> PreparedDPOTrainer:
    """The trainer of the adapter `POLICY` against `REFERENCE`, which walks through the pairs once; it may write to the
    folder."""
    config = DPOConfig(
        output_dir=folder,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=settings.warmup_steps,
        max_grad_norm=settings.max_grad_norm,
        weight_decay=0.0,
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        train_sampling_strategy="sequential",
        # The base has its own dtype and the adapters are float32; autocast only rounds the latter.
        bf16=settings.bf16,
        seed=seed,
        use_cpu=policy.device.type == "cpu",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        beta=settings.beta,
        loss_type=["sigmoid", *([SUPERVISED] if settings.supervised else [])],
        loss_weights=[1.0, settings.supervised] if settings.supervised else None,
        f_divergence_type=settings.divergence,
        precompute_ref_log_probs=settings.packed,
        max_length=None,
        **{_CHECKPOINTING: settings.activation_checkpointing},
    )
    trainer: type[PreparedDPOTrainer] = PackedDPOTrainer if settings.packed else PreparedDPOTrainer
    if processes.size() > 1:
        trainer = DistributedDPOTrainer
    return trainer(
        policy.model,
        args=config,
        train_dataset=pair_dataset(policy.tokenizer, pairs),
        processing_class=policy.tokenizer,
        reference_adapter=REFERENCE,
    )


def _length(policy: Policy, example: PreferencePair) -> int:
    branches = (
        encode_branch(policy.tokenizer, example.prompt, text) for text in (example.chosen, example.rejected)
    )
    return max(len(prompt) + len(completion) for prompt, completion in branches)


@dataclass(eq=False)
class _Watch(TrainerCallback):
    """Looks at the policy at the marked steps: measures K̂L, keeps a copy, ends the training at the goal."""

    policy: Policy
    result: Training
    marks: set[int]
    checkpoints: int
    on_step: Callable[[StepRecord], None] | None
    divergence: Callable[[], float] | None
    goal: float

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        if step not in self.marks:
            return
        if self.goal < math.inf:
            self.result.kls.append((step, self._measured()))
            if self.result.kls[-1][1] >= self.goal:
                control.should_training_stop = True
                return  # what there is now is the final policy
        self._keep(step)

    def _measured(self) -> float:
        assert self.divergence is not None
        training = self.policy.model.training
        self.policy.model.eval()
        try:
            return self.divergence()
        finally:
            self.policy.model.train(training)

    def _keep(self, step: int) -> None:
        """Keep a copy of the policy; once there are enough, the oldest gives way and the others move up."""
        kept = self.result.checkpoints
        if len(kept) < self.checkpoints:
            name = f"candidate-{len(kept) + 1}"
            self.policy.add(name, copy_of=POLICY)
            kept[name] = step
            return
        for older, newer in pairwise([*kept, POLICY]):
            self.policy.copy(newer, older)
            kept[older] = kept.get(newer, step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "loss" not in logs:
            return
        record = StepRecord(
            step=state.global_step,
            loss=logs["loss"],
            margin=logs["rewards/margins"],
            accuracy=logs["rewards/accuracies"],
            chosen_reward=logs["rewards/chosen"],
            rejected_reward=logs["rewards/rejected"],
            grad_norm=float(logs["grad_norm"]),
            entropy=logs["entropy"],
        )
        self.result.steps.append(record)
        if self.on_step is not None:
            self.on_step(record)
