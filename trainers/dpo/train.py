"""The part of a phase that costs: DPO (Eq. 2) of the adapter `POLICY`, and Eq. 3 of every checkpoint.

Eq. 2 is TRL's `DPOTrainer` loss and optimiser in a plain loop over packed passes (`trainers.dpo.packed`): losses,
gradients and steps equal TRL's to rounding. The reference's log-probabilities are computed once, over all pairs.

Epochs are unrolled into the order of the pairs, prompts that begin alike kept together for packing. `train` is a
function of the policy's two adapters and a `TrainJob`, plain data, so that it can be done in several processes
(`trainers.dpo.launch`), which divide each batch by prompts and add up their gradients.

On a GPU losses are read only when K̂L is looked at, since reading waits for the device.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from atlas_gym.agents.models.memory import telling_what_helps
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Learner, Policy
from atlas_gym.agents.models.token_trie import families
from atlas_gym.seeding import stream
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.accumulation import Accumulation, Example, even_parts, precision, uneven_parts
from atlas_gym.trainers.dpo.kl import Divergence, Item, KLEstimate
from atlas_gym.trainers.dpo.likelihoods import log_likelihoods, processes, totals
from atlas_gym.trainers.dpo.packed import encode_branch, room, wants_even
from atlas_gym.trainers.dpo.settings import PhaseSettings

_CLIP = 1.0
"""Norm that a step's gradient is scaled down to, TRL's default."""


@dataclass(frozen=True)
class TrainJob:
    """What is to be done with a policy."""

    pairs: tuple[PreferencePair, ...]  # D_k
    settings: PhaseSettings  # how to train
    checkpoints: int  # intermediate checkpoints to keep
    # (prompt, completion) along which Eq. 3 of the checkpoints is taken; none: it is not
    gate_items: tuple[Item, ...]
    phase: int  # number of the phase, for its random streams
    seed: int  # seed of the run
    max_kl: float = math.inf  # K̂L beyond which there is nothing to gain
    # (prompt, completion) along which K̂L is measured while training; default: the gate's
    stop_items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class StepRecord:
    """One optimiser step, averages over its pairs."""

    step: int  # counted from 1
    loss: float  # DPO's is ln 2 where policy and reference agree
    margin: float  # β times the difference of the log-ratios of chosen and rejected
    accuracy: float  # share of pairs with a positive margin
    chosen_reward: float  # β · log π/π_ref of the chosen completions
    rejected_reward: float  # β · log π/π_ref of the rejected ones
    entropy: float  # entropy of the policy's next-token distribution along the completions, nats
    grad_norm: float  # before clipping


@dataclass
class Trained:
    """What a training leaves besides the policy's adapters: `POLICY` trained, and one for every checkpoint."""

    steps: list[StepRecord] = field(default_factory=list)  # every optimiser step
    # intermediate checkpoints: adapter name → step after which it was taken
    checkpoints: dict[str, int] = field(default_factory=dict)
    # (step, K̂L) of each look at it, nats per token
    looks: list[tuple[int, float]] = field(default_factory=list)
    # Eq. 3 of the checkpoints in the order of their steps, and last of `POLICY`
    kls: dict[str, KLEstimate] = field(default_factory=dict)
    pairs: int = 0  # pairs trained on, per epoch
    dropped: int = 0  # pairs left out because they were too long
    # tokens that went through the model forwards, padding and the reference's passes included
    tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # wall time of `train` and `kl`
    processes: int = 1  # how many shared the work


@telling_what_helps("set a smaller phase.batch_size or phase.max_tokens, or phase.activation_checkpointing")
def train(
    policy: Policy,
    job: TrainJob,
    on_step: Callable[[StepRecord], None] | None = None,
    even: bool | None = None,
) -> Trained:
    """Tune the adapter `POLICY` against `REFERENCE` until its K̂L has grown by the target, or is `max_kl`, or the
    epochs end; of several processes, this one's share.

    At `settings.checks` evenly spaced steps of each epoch K̂L is measured, if there is a target. The last `checkpoints`
    of the policies at these steps, before the final one, become adapters `checkpoint-1`, …. `even`: as `pack` has it,
    by default as suits the device. Raises ValueError if no pair is short enough, or there is none, and MemoryFull
    if the GPU's memory is too small.
    """
    began, settings = time.perf_counter(), job.settings
    even = wants_even(policy.device) if even is None else even
    examples, order = training_data(policy.tokenizer, job)
    trained = Trained(pairs=len(examples), dropped=len(job.pairs) - len(examples), processes=processes()[1])
    goal = math.inf
    if settings.target_kl:
        divergence = Divergence(policy, REFERENCE, job.stop_items or job.gate_items, even)
        start = 0.0 if policy.equal(POLICY, REFERENCE) else divergence.of([POLICY])[POLICY].mean
        goal = min(start + settings.target_kl, job.max_kl)
    steps, looks = math.ceil(len(order) / settings.batch_size), settings.checks * settings.epochs
    marks = {round(steps * k / looks) for k in range(1, looks + 1)} - {steps}

    def count(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        trained.tokens += kwargs["input_ids"].numel()

    counter = policy.model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        with policy.using(REFERENCE) as model, precision(policy, settings):
            known = log_likelihoods(
                model, [side for own in examples for side in (own.chosen, own.rejected)], even
            )
        examples = [
            Example(own.chosen, own.rejected, (chosen, rejected))
            for own, chosen, rejected in zip(examples, known[::2], known[1::2], strict=True)
        ]
        batches = [
            [examples[index] for index in order[first : first + settings.batch_size]]
            for first in range(0, len(order), settings.batch_size)
        ]
        most = room(policy.model, training=True, checkpointed=settings.activation_checkpointing)
        unread: list[torch.Tensor] = []
        with policy.learning() as learner, _recomputing(policy, settings):
            optimizer = torch.optim.AdamW(
                learner.parameters, lr=settings.learning_rate, weight_decay=0.0, fused=True
            )
            make_parts = even_parts if even else uneven_parts
            accumulate = Accumulation(policy, learner, settings, graph=policy.device.type == "cuda")
            for step, parts in enumerate(make_parts(batches, most), 1):
                accumulate.sums.zero_()
                for part in parts:
                    accumulate(part)
                unread.append(_update(learner, optimizer, accumulate.sums))
                if policy.device.type == "cpu" or step in marks or step == steps:
                    for values in torch.stack(unread).tolist():
                        record = StepRecord(len(trained.steps) + 1, *values)
                        trained.steps.append(record)
                        if on_step is not None:
                            on_step(record)
                    unread.clear()
                if step not in marks:
                    continue
                if goal < math.inf:
                    trained.looks.append((step, divergence.of([POLICY])[POLICY].mean))
                    if trained.looks[-1][1] >= goal:
                        break  # what there is now is the final policy
                _keep(policy, trained.checkpoints, step, job.checkpoints)
    finally:
        counter.remove()
    trained.tokens = int(totals(torch.tensor(trained.tokens + accumulate.replayed, device=policy.device)))
    ended = time.perf_counter()
    if job.gate_items:
        trained.kls = Divergence(policy, REFERENCE, job.gate_items, even).of([*trained.checkpoints, POLICY])
    trained.seconds = {"train": ended - began, "kl": time.perf_counter() - ended}
    return trained


def training_data(tokenizer: Any, job: TrainJob) -> tuple[list[Example], list[int]]:
    """The job's pairs that are short enough, and the order in which they are trained on, all epochs. ValueError without
    any."""
    settings = job.settings
    examples = [encoded(tokenizer, pair) for pair in job.pairs]
    examples = [own for own in examples if _length(own) <= settings.max_tokens]
    if not examples:
        raise ValueError(f"none of the {len(job.pairs)} pairs fits into max_tokens = {settings.max_tokens}")
    # What begins alike trains together.
    groups = sorted(sorted(group) for group in families([own.chosen[0] for own in examples]))
    rng = stream(job.seed, "phase", job.phase, "order")
    order = [i for _ in range(settings.epochs) for i in batch_order(groups, settings.batch_size, rng)]
    return examples, order


def encoded(tokenizer: Any, pair: PreferencePair) -> Example:
    """The pair as tokens. What is rejected has no end: a policy that is taught that lines do not end where they do
    writes lines that do not end."""
    body = pair.rejected.rstrip("\n")
    texts = pair.chosen, body if body.strip() else pair.rejected
    chosen, rejected = (encode_branch(tokenizer, pair.prompt, text) for text in texts)
    return Example(chosen, rejected)


def _length(example: Example) -> int:
    return max(len(prompt) + len(completion) for prompt, completion in (example.chosen, example.rejected))


def _update(learner: Learner, optimizer: Any, sums: torch.Tensor) -> torch.Tensor:
    """A step of the optimiser over all processes: its sums, and the gradient's norm before it is clipped."""
    if processes()[1] > 1:
        parts = totals(torch.cat([gradient.flatten() for gradient in learner.gradients]))
        sizes = [gradient.numel() for gradient in learner.gradients]
        for gradient, summed in zip(learner.gradients, parts.split(sizes), strict=True):
            gradient.copy_(summed.view_as(gradient))
        totals(sums)
    norm = torch.nn.utils.clip_grad_norm_(learner.parameters, _CLIP)
    optimizer.step()
    learner.renew()
    return torch.cat([sums, norm[None]])


def _keep(policy: Policy, kept: dict[str, int], step: int, most: int) -> None:
    """Keep a copy of the policy. Once there are enough, the oldest gives way and the others move up."""
    if len(kept) < most:
        name = f"checkpoint-{len(kept) + 1}"
        policy.add(name, copy_of=POLICY)
        kept[name] = step
        return
    for older, newer in pairwise([*kept, POLICY]):
        policy.copy(newer, older)
        kept[older] = kept.get(newer, step)


@contextmanager
def _recomputing(policy: Policy, settings: PhaseSettings) -> Iterator[None]:
    """Within the block layers compute their activations again in the backward pass, if the settings say so."""
    if not settings.activation_checkpointing:
        yield
        return
    base: Any = policy.base
    layers = [each for each in base.modules() if isinstance(each, GradientCheckpointingLayer)]
    # transformers before 5.20, which vLLM wants, has it by its old name.
    kind = "activation" if hasattr(base, "activation_checkpointing_enable") else "gradient"
    getattr(base, f"{kind}_checkpointing_enable")({"use_reentrant": False, "preserve_rng_state": False})
    try:
        for layer in layers:  # but not what is in them: dropout stays off
            layer.training = True
        yield
    finally:
        for layer in layers:
            layer.training = False
        getattr(base, f"{kind}_checkpointing_disable")()


def batch_order(groups: Sequence[Sequence[int]], batch_size: int, rng: np.random.Generator) -> list[int]:
    """A random order of pairs in which each batch of `batch_size` consecutive pairs is of few groups: those of each
    group are shuffled and cut into full batches; what is left over is lined up, largest first, and cut likewise; the
    full batches are then shuffled. An incomplete batch comes last."""
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
