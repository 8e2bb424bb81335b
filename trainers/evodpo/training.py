"""The training part of a phase: pairs in a decided order, TRL's trainer, the policy's adapter on the way.

Epochs are unrolled into the order of the data (each epoch shuffled anew, prompts that begin alike kept together
for packing) and the trainer walks through it from beginning to end, so that packed and stock training see the same
batches and the order is a function of the seed.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import PrinterCallback, TrainerCallback
from trl import DPOConfig

from agents.models.policy import POLICY, REFERENCE, Policy
from agents.models.token_trie import families
from agents.models.tokens import encode_continuation, encode_prompt
from trainers.data.pairs import PreferencePair
from trainers.evodpo import processes
from trainers.evodpo.distributed_dpo import DistributedDPOTrainer
from trainers.evodpo.packed_dpo import PackedDPOTrainer, PreparedDPOTrainer, borrowed, pair_dataset
from trainers.evodpo.packing import batch_order
from trainers.evodpo.settings import TrainingSettings

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
    """DPO loss; ln 2 where policy and reference agree."""
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
    """Pairs trained on (per epoch)."""
    dropped: int = 0
    """Pairs left out because they were too long."""
    tokens: int = 0
    """Tokens that went through the model forwards, padding and the reference's passes included."""

    def count(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Forward hook that adds up `tokens`."""
        self.tokens += kwargs["input_ids"].numel()


def train(
    policy: Policy,
    pairs: Sequence[PreferencePair],
    settings: TrainingSettings,
    *,
    checkpoints: int,
    rng: np.random.Generator,
    seed: int,
    on_step: Callable[[StepRecord], None] | None = None,
    divergence: Callable[[], float] | None = None,
) -> Training:
    """Tune the adapter `POLICY` against `REFERENCE` until its K̂L reaches the target or the epochs end.

    At `settings.checks` evenly spaced steps `divergence` measures K̂L (None: not measured, all epochs are trained).
    The last `checkpoints` of the policies at these steps, before the final one, become adapters `candidate-1`, ….

    Raises:
        ValueError: no pair is short enough, or there is none.
    """
    kept = [pair for pair in pairs if _length(policy, pair) <= settings.max_tokens]
    if not kept:
        raise ValueError(f"none of the {len(pairs)} pairs fits into max_tokens = {settings.max_tokens}")
    kinds = _families(policy, kept)
    order = [i for _ in range(settings.epochs) for i in batch_order(kinds, settings.batch_size, rng)]
    rows = [(kept[i].prompt, kept[i].chosen, kept[i].rejected) for i in order]
    result = Training(pairs=len(kept), dropped=len(pairs) - len(kept))
    steps = math.ceil(len(rows) / settings.batch_size)
    watch = _Watch(policy, result, settings, steps, checkpoints, on_step, divergence)
    trainer_class = _trainer_class(settings)
    with tempfile.TemporaryDirectory() as folder, borrowed(policy.model) as model, warnings.catch_warnings():
        counter = model.register_forward_pre_hook(result.count, with_kwargs=True)
        # TRL 1.16 asks transformers for a property by its old name.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        trainer = trainer_class(
            model,
            args=_dpo_config(settings, folder, seed, policy.device.type == "cpu"),
            train_dataset=pair_dataset(policy.tokenizer, rows),
            processing_class=policy.tokenizer,
            reference_adapter=REFERENCE,
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        try:
            trainer.train()
        finally:
            counter.remove()
    watch.name_checkpoints()
    result.tokens = int(processes.totals([result.tokens], policy.device)[0])
    return result


def _trainer_class(settings: TrainingSettings) -> type[PreparedDPOTrainer]:
    if processes.size() > 1:
        if not settings.packed:
            raise ValueError("several processes train packed sequences only: set packed: true")
        return DistributedDPOTrainer
    return PackedDPOTrainer if settings.packed else PreparedDPOTrainer


def _families(policy: Policy, pairs: Sequence[PreferencePair]) -> list[int]:
    """For each pair a number that it shares with the pairs whose prompts begin alike, so that they train together."""
    prompts = [encode_prompt(policy.tokenizer, pair.prompt) for pair in pairs]
    groups = families(prompts)
    return [number for _, number in sorted((i, number) for number, group in enumerate(groups) for i in group)]


def _length(policy: Policy, pair: PreferencePair) -> int:
    chosen, rejected = (
        len(encode_continuation(policy.tokenizer, text)) for text in (pair.chosen, pair.rejected)
    )
    return len(encode_prompt(policy.tokenizer, pair.prompt)) + max(chosen, rejected)


def _dpo_config(settings: TrainingSettings, folder: str, seed: int, cpu: bool) -> DPOConfig:
    checkpointing: dict[str, Any] = {_CHECKPOINTING: settings.activation_checkpointing}
    return DPOConfig(
        output_dir=folder,
        beta=settings.beta,
        loss_type=[settings.loss, *(["sft"] if settings.supervised else [])],
        loss_weights=[1.0, settings.supervised] if settings.supervised else None,
        f_divergence_type=settings.divergence,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=settings.warmup_steps,
        max_grad_norm=settings.max_grad_norm,
        weight_decay=0.0,
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        train_sampling_strategy="sequential",
        precompute_ref_log_probs=settings.packed,
        max_length=None,
        **checkpointing,
        # The base has its own dtype and the adapters are float32; autocast only rounds the latter.
        bf16=settings.bf16,
        seed=seed,
        use_cpu=cpu,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


class _Watch(TrainerCallback):
    """Looks at the policy at evenly spaced steps: measures K̂L, keeps a copy, ends the training at the target."""

    def __init__(
        self,
        policy: Policy,
        result: Training,
        settings: TrainingSettings,
        steps: int,
        checkpoints: int,
        on_step: Callable[[StepRecord], None] | None,
        divergence: Callable[[], float] | None,
    ) -> None:
        self._policy, self._result, self._on_step = policy, result, on_step
        self._target, self._divergence = settings.target_kl, divergence
        self._marks = {round(steps * k / settings.checks) for k in range(1, settings.checks + 1)}
        self._last, self._checkpoints = steps, checkpoints
        self._kept: list[tuple[str, int]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        if step not in self._marks or step == self._last:
            return
        if self._target and self._divergence is not None:
            self._result.kls.append((step, self._measured()))
            if self._result.kls[-1][1] >= self._target:
                control.should_training_stop = True
                return  # what there is now is the final policy
        self._keep(step)

    def _measured(self) -> float:
        assert self._divergence is not None
        training = self._policy.model.training
        self._policy.model.eval()
        try:
            return self._divergence()
        finally:
            self._policy.model.train(training)

    def _keep(self, step: int) -> None:
        if not self._checkpoints:
            return
        self._policy.add(f"checkpoint-{step}", copy_of=POLICY)
        self._kept.append((f"checkpoint-{step}", step))
        if len(self._kept) > self._checkpoints:
            self._policy.remove(self._kept.pop(0)[0])

    def name_checkpoints(self) -> None:
        """Turn what was kept into candidates, numbered from 1."""
        for number, (kept, step) in enumerate(self._kept, start=1):
            name = f"candidate-{number}"
            self._policy.add(name, copy_of=kept)
            self._policy.remove(kept)
            self._result.checkpoints[name] = step

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
        self._result.steps.append(record)
        if self._on_step is not None:
            self._on_step(record)
