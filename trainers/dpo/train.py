"""The part of a phase that costs: DPO (Eq. 2) with TRL, and Eq. 3 of every checkpoint.

Epochs are unrolled into the order of the pairs (each epoch shuffled anew, prompts that begin alike kept together for
packing) and the trainer walks through it from beginning to end, so that the order is a function of the seed.
`train` is a function of the policy's two adapters and a `TrainJob`, which is plain data, so that it can be done in
this process or in several others (`trainers.dpo.launch`).
"""

import math
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from transformers import PrinterCallback, TrainerCallback
from trl import DPOConfig, DPOTrainer

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.token_trie import families
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.kl import Divergence, Item, KLEstimate
from atlas_gym.trainers.dpo.packed import encode_branch, processes, totals
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.trainer import SUPERVISED, PackedDPOTrainer, borrowed, pair_dataset

# transformers before 5.20, which vLLM wants, has it by its old name.
_CHECKPOINTING = next(
    name
    for name in ("activation_checkpointing", "gradient_checkpointing")
    if name in DPOConfig.__dataclass_fields__
)


@dataclass(frozen=True)
class TrainJob:
    """What is to be done with a policy."""

    pairs: tuple[PreferencePair, ...]
    """D_k."""
    settings: PhaseSettings
    """How to train."""
    checkpoints: int
    """Intermediate checkpoints to keep."""
    gate_items: tuple[Item, ...]
    """(prompt, completion) along which Eq. 3 is taken."""
    phase: int
    """Number of the phase, for its random streams."""
    seed: int
    """Seed of the run."""
    max_kl: float = math.inf
    """K̂L beyond which there is nothing to gain."""


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
    """β · log π/π_ref of the rejected ones."""
    grad_norm: float
    """Before clipping."""
    entropy: float
    """Entropy of the policy's next-token distribution along the completions, nats."""


@dataclass
class Trained:
    """What a training leaves besides the policy's adapters: `POLICY` trained, and one for every checkpoint."""

    steps: list[StepRecord] = field(default_factory=list)
    """Every optimiser step."""
    checkpoints: dict[str, int] = field(default_factory=dict)
    """Intermediate checkpoints: adapter name → step after which it was taken."""
    looks: list[tuple[int, float]] = field(default_factory=list)
    """(step, K̂L) of each look at it, nats per token."""
    kls: dict[str, KLEstimate] = field(default_factory=dict)
    """Eq. 3 of the checkpoints in the order of their steps, and last of `POLICY`."""
    pairs: int = 0
    """Pairs trained on, per epoch."""
    dropped: int = 0
    """Pairs left out because they were too long."""
    tokens: int = 0
    """Tokens that went through the model forwards, padding and the reference's passes included."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of `train` and `kl`."""
    processes: int = 1
    """How many shared the work."""


def train(
    policy: Policy,
    job: TrainJob,
    on_step: Callable[[StepRecord], None] | None = None,
    trainer_class: Callable[..., DPOTrainer] = PackedDPOTrainer,
) -> Trained:
    """Tune the adapter `POLICY` against `REFERENCE` until its K̂L has grown by the target, or is `max_kl`, or the epochs
    end; with the model in this process (of several processes: this one's share).

    At `settings.checks` evenly spaced steps of each epoch K̂L is measured, if there is a target. The last `checkpoints`
    of the policies at these steps, before the final one, become adapters `checkpoint-1`, ….

    Args:
        policy: its adapters.
        job: what to train on, and how.
        on_step: hears of each step as it happens.
        trainer_class: for comparison with TRL's own.

    Raises:
        ValueError: no pair is short enough, or there is none.
    """
    began = time.perf_counter()
    settings, tokenizer = job.settings, policy.tokenizer
    kept = [pair for pair in job.pairs if _length(tokenizer, pair) <= settings.max_tokens]
    if not kept:
        raise ValueError(f"none of the {len(job.pairs)} pairs fits into max_tokens = {settings.max_tokens}")
    # What begins alike trains together.
    alike = families([encode_prompt(tokenizer, pair.prompt) for pair in kept])
    groups = sorted(sorted(group) for group in alike)
    rng = stream(job.seed, "phase", job.phase, "order")
    order = [i for _ in range(settings.epochs) for i in batch_order(groups, settings.batch_size, rng)]
    trained = Trained(pairs=len(kept), dropped=len(job.pairs) - len(kept), processes=processes()[1])
    divergence = Divergence(policy, REFERENCE, job.gate_items)
    goal = math.inf
    if settings.target_kl:
        goal = min(divergence.of([POLICY])[POLICY].mean + settings.target_kl, job.max_kl)
    steps, looks = math.ceil(len(order) / settings.batch_size), settings.checks * settings.epochs
    marks = {round(steps * k / looks) for k in range(1, looks + 1)} - {steps}
    seed = torch_seed(job.seed, "phase", job.phase, "trainer") % 2**32

    def count(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        trained.tokens += kwargs["input_ids"].numel()

    with tempfile.TemporaryDirectory() as folder, borrowed(policy.model) as model, warnings.catch_warnings():
        counter = model.register_forward_pre_hook(count, with_kwargs=True)
        # TRL 1.16 asks transformers for a property by its old name.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        trainer = trainer_class(
            model,
            args=_config(settings, folder, seed, policy.device.type == "cpu"),
            train_dataset=pair_dataset(tokenizer, [kept[i] for i in order]),
            processing_class=tokenizer,
            reference_adapter=REFERENCE,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(_Watch(policy, trained, marks, job.checkpoints, on_step, divergence, goal))
        try:
            trainer.train()
        finally:
            counter.remove()
    trained.tokens = int(totals([trained.tokens], policy.device)[0])
    ended = time.perf_counter()
    trained.kls = divergence.of([*trained.checkpoints, POLICY])
    trained.seconds = {"train": ended - began, "kl": time.perf_counter() - ended}
    return trained


def _length(tokenizer: Any, pair: PreferencePair) -> int:
    branches = (encode_branch(tokenizer, pair.prompt, text) for text in (pair.chosen, pair.rejected))
    return max(len(prompt) + len(completion) for prompt, completion in branches)


def _config(settings: PhaseSettings, folder: str, seed: int, cpu: bool) -> DPOConfig:
    checkpointing: dict[str, Any] = {_CHECKPOINTING: settings.activation_checkpointing}
    return DPOConfig(
        output_dir=folder,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",  # a warm-up's small first steps are a lot to waste where a phase has 16
        weight_decay=0.0,
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        train_sampling_strategy="sequential",
        # The base has its own dtype and the adapters are float32; autocast only rounds the latter.
        bf16=settings.bf16,
        seed=seed,
        use_cpu=cpu,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        beta=settings.beta,
        loss_type=["sigmoid", *([SUPERVISED] if settings.supervised else [])],
        loss_weights=[1.0, settings.supervised] if settings.supervised else None,
        f_divergence_type=settings.divergence,
        precompute_ref_log_probs=True,
        max_length=None,
        **checkpointing,
    )


def batch_order(groups: Sequence[Sequence[int]], batch_size: int, rng: np.random.Generator) -> list[int]:
    """A random order of pairs in which each batch of `batch_size` consecutive pairs is of few groups.

    The pairs of each group are shuffled and cut into full batches; what is left over is lined up, largest first, and
    cut likewise; the full batches are then shuffled. An incomplete batch comes last.
    """
    full: list[list[int]] = []
    rest: list[list[int]] = []
    for group in groups:
        shuffled = [group[i] for i in rng.permutation(len(group))]
        cut = len(group) - len(group) % batch_size
        full += [shuffled[i : i + batch_size] for i in range(0, cut, batch_size)]
        rest.append(shuffled[cut:])
    shuffled_rest = [rest[i] for i in rng.permutation(len(rest))]
    line = [index for group in sorted(shuffled_rest, key=len, reverse=True) for index in group]
    cut = len(line) - len(line) % batch_size
    full += [line[i : i + batch_size] for i in range(0, cut, batch_size)]
    return [index for i in rng.permutation(len(full)) for index in full[i]] + line[cut:]


@dataclass(eq=False)
class _Watch(TrainerCallback):
    """Looks at the policy at the marked steps: measures K̂L, keeps a copy, ends the training at the goal."""

    policy: Policy
    trained: Trained
    marks: set[int]
    checkpoints: int
    on_step: Callable[[StepRecord], None] | None
    divergence: Divergence
    goal: float

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        if step not in self.marks:
            return
        if self.goal < math.inf:
            training = self.policy.model.training
            self.policy.model.eval()
            kl = self.divergence.of([POLICY])[POLICY].mean
            self.policy.model.train(training)
            self.trained.looks.append((step, kl))
            if kl >= self.goal:
                control.should_training_stop = True
                return  # what there is now is the final policy
        # Keep a copy; once there are enough, the oldest gives way and the others move up.
        kept = self.trained.checkpoints
        if len(kept) < self.checkpoints:
            name = f"checkpoint-{len(kept) + 1}"
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
        self.trained.steps.append(record)
        if self.on_step is not None:
            self.on_step(record)
