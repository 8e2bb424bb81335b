"""The part of a phase that costs: DPO (Eq. 2) of the adapter `POLICY`, and Eq. 3 of every checkpoint.

Eq. 2 is TRL's `DPOTrainer` loss and optimiser in a plain loop over packed passes (`trainers.dpo.packed`): losses,
gradients and steps equal TRL's to rounding. The reference's log-probabilities are computed once, over all pairs.

Epochs are unrolled into the order of the pairs, prompts that begin alike kept together for packing. `train` is a
function of the policy's two adapters and a `TrainJob`, plain data, so that it can be done in several processes
(`trainers.dpo.launch`), which divide each batch by prompts and add up their gradients.

On a GPU all passes of a training have one shape, so that forward and backward are one CUDA graph, and nothing waits for
the device until K̂L is looked at: losses are read then.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn.functional import logsigmoid
from transformers.modeling_layers import GradientCheckpointingLayer

from atlas_gym.agents.models.captured import Captured
from atlas_gym.agents.models.memory import telling_what_helps
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Learner, Policy
from atlas_gym.agents.models.token_trie import families
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.seeding import stream
from atlas_gym.trainers.data.measures import grouped
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.kl import Divergence, Item, KLEstimate
from atlas_gym.trainers.dpo.packed import (
    Branch,
    Pass,
    line,
    log_likelihoods,
    pack,
    processes,
    room,
    rows,
    token_values,
    totals,
    wants_even,
    width,
)
from atlas_gym.trainers.dpo.settings import PhaseSettings

_CLIP = 1.0
"""Norm that a step's gradient is scaled down to, TRL's default."""
_TOKENS = 64
"""Completion tokens of a row's part are a multiple of this."""


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


@dataclass(frozen=True)
class Example:
    """A pair as tokens, with what the reference makes of it."""

    chosen: Branch
    rejected: Branch
    reference: tuple[float, float] = (0.0, 0.0)  # log π_ref of both completions


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
    remedy = "set a smaller phase.batch_size or phase.max_tokens, or phase.activation_checkpointing"
    with telling_what_helps(remedy):
        return _train(policy, job, on_step, wants_even(policy.device) if even is None else even)


def _train(
    policy: Policy, job: TrainJob, on_step: Callable[[StepRecord], None] | None, even: bool
) -> Trained:
    began = time.perf_counter()
    settings = job.settings
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
        with policy.using(REFERENCE) as model, _precision(policy, settings):
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
            make_parts = _even_parts if even else _parts
            accumulate = Accumulation(policy, learner, settings, graph=policy.device.type == "cuda")
            for step, parts in enumerate(make_parts(batches, settings, most), 1):
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
    prompt, body = encode_prompt(tokenizer, pair.prompt), pair.rejected.rstrip("\n")
    texts = pair.chosen, body if body.strip() else pair.rejected
    chosen, rejected = (encode_completion(tokenizer, pair.prompt, text) for text in texts)
    return Example((prompt, chosen), (prompt, rejected))


def _length(example: Example) -> int:
    return max(len(prompt) + len(completion) for prompt, completion in (example.chosen, example.rejected))


@dataclass(frozen=True)
class Part:
    """Pairs of a batch that go through the model together, as tensors: P pairs, some of them empty."""

    passes: list[Pass]  # that hold the completions
    places: (
        torch.Tensor
    )  # (2P,) of each chosen and then each rejected one: its number among those of the passes
    reference: torch.Tensor  # (2, P) log π_ref of chosen and rejected ones
    # (3, P) what a pair counts in a mean over the batch's pairs, over its chosen tokens and over all its tokens
    weights: torch.Tensor

    def tensors(self) -> list[torch.Tensor]:
        """All that one part has otherwise than another of its shape."""
        own = [self.places, self.reference, self.weights]
        for each in self.passes:
            own += [*each.inputs.values(), each.places, each.targets, each.owners]
        return own

    def to(self, device: torch.device) -> "Part":
        """The same with its tensors on `device`."""
        passes = [each.to(device) for each in self.passes]
        return Part(passes, *(own.to(device) for own in (self.places, self.reference, self.weights)))


Parts = Iterator[list[Part]]
"""For each step of the optimiser its parts, those of this process."""


def _parts(batches: Sequence[Sequence[Example]], settings: PhaseSettings, most: int) -> Parts:
    """The rows of a batch are one part."""
    for batch in batches:
        own = _own(batch)
        packing = pack([each.chosen for each in own] + [each.rejected for each in own], most, False)
        yield [_part(packing.passes, packing.places, own, batch)] if own else []


def _even_parts(batches: Sequence[Sequence[Example]], settings: PhaseSettings, most: int) -> Parts:
    """All parts of all batches have one shape, that of the largest, with as many pairs as there is room for."""
    empty, owns, pairs = Example(((), ()), ((), ())), list(map(_own, batches)), len(batches[0])
    while any(owns):
        cut = [[own[i : i + pairs] for i in range(0, len(own), pairs)] for own in owns]
        whole = [[part + [empty] * (pairs - len(part)) for part in parts] for parts in cut]
        lines = [
            [line([each.chosen for each in part] + [each.rejected for each in part]) for part in parts]
            for parts in whole
        ]
        wide = width([each for parts in lines for each in parts], most)
        filled = [[each.rows(wide) for each in parts] for parts in lines]
        count = max(len(groups) for parts in filled for groups in parts)
        if pairs == 1 or count * wide <= most:
            break
        pairs = -(-pairs // 2)
    else:  # more processes than pairs
        yield from ([] for _ in batches)
        return
    tokens = max(sum(len(branch[1]) for branch in each.branches) for parts in lines for each in parts)
    shape = count, -(-tokens // _TOKENS) * _TOKENS
    for batch, parts, own, groups in zip(batches, whole, lines, filled, strict=True):
        yield [
            _part([rows(each, group, wide, shape)], range(2 * pairs), part, batch)
            for part, each, group in zip(parts, own, groups, strict=True)
        ]


def _own(batch: Sequence[Example]) -> list[Example]:
    """This process's share of a batch."""
    rank, size = processes()
    return [batch[i] for i in divide([tuple(example.chosen[0]) for example in batch], size)[rank]]


def _part(
    passes: list[Pass], places: Sequence[int], own: Sequence[Example], batch: Sequence[Example]
) -> Part:
    chosen = sum(len(example.chosen[1]) for example in batch)
    tokens = sum(len(example.rejected[1]) for example in batch) + chosen
    counts = torch.tensor([[1.0 / len(batch)], [1.0 / chosen], [1.0 / tokens]])
    real = torch.tensor([bool(example.chosen[1]) for example in own])
    reference = torch.tensor([example.reference for example in own]).T
    return Part(passes, torch.tensor(places), reference, counts * real)


class Accumulation:
    """Adds the gradients of parts to a learner's; with a `graph` parts must have one shape."""

    def __init__(self, policy: Policy, learner: Learner, settings: PhaseSettings, graph: bool) -> None:
        self.sums = torch.zeros(6, device=policy.device)  # of what a `StepRecord` has of its pairs
        self.replayed = 0  # tokens that went through the model unseen by its hooks
        self._policy, self._learner, self._settings = policy, learner, settings
        self._run = Captured(graph)
        self._static: Part | None = None

    def __call__(self, part: Part) -> None:
        """Add a part's."""
        if not self._run.enabled:
            self._add(part.to(self._policy.device))
            return
        if self._static is None:
            self._static = part.to(self._policy.device)
        else:
            for own, new in zip(self._static.tensors(), part.tensors(), strict=True):
                own.copy_(new.pin_memory(), non_blocking=True)
        static = self._static
        if self._run(lambda: self._add(static)):
            self.replayed += sum(each.inputs["input_ids"].numel() for each in part.passes)

    def _add(self, part: Part) -> None:
        with _precision(self._policy, self._settings):
            found = losses(self._policy.model, part, self._settings)
        self._learner.backward(found[0])
        self.sums += found.detach()


def losses(model: Any, part: Part, settings: PhaseSettings) -> torch.Tensor:
    """What a part adds to what a `StepRecord` has of its batch."""
    log_probs, entropies = [], []
    for batch in part.passes:
        values, entropy = token_values(model, batch)
        log_probs.append(batch.per_branch(values))
        entropies.append(batch.per_branch(entropy))
    own = torch.cat(log_probs)[part.places].view(2, -1)
    ratios = own - part.reference
    # The derivative of the divergence's generator at the ratio: log t, and 1 - 1/t for the forward KL.
    scores = ratios if settings.divergence == "reverse_kl" else 1.0 - torch.exp(-ratios)
    pairs, chosen_tokens, tokens = part.weights
    loss = -(logsigmoid(settings.beta * (scores[0] - scores[1])) * pairs).sum()
    loss = loss - settings.supervised * (own[0] * chosen_tokens).sum()
    chosen, rejected = settings.beta * ratios.detach()
    margins = chosen - rejected
    entropy = (torch.cat(entropies)[part.places].view(2, -1) * tokens).sum()
    means = [(values * pairs).sum() for values in (margins, (margins > 0).float(), chosen, rejected)]
    return torch.stack([loss, *means, entropy])


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


def _precision(policy: Policy, settings: PhaseSettings) -> torch.autocast:
    return torch.autocast(policy.device.type, torch.bfloat16, enabled=settings.bf16)


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


def divide(prompts: Sequence[Hashable], parts: int) -> list[list[int]]:
    """The indices of a batch's pairs for each process: whole prompts if possible, the longest lists halved else; empty
    only where there are fewer pairs than processes."""
    if parts == 1:
        return [list(range(len(prompts)))]
    found: list[list[int]] = [[] for _ in range(parts)]
    groups = grouped(range(len(prompts)), lambda index: prompts[index]).values()
    for group in sorted(groups, key=len, reverse=True):
        min(found, key=len).extend(group)
    while (longest := max(found, key=len)) and len(longest) > 1 and not all(found):
        empty = found.index([])
        found[empty] = longest[len(longest) // 2 :]
        del longest[len(longest) // 2 :]
    return found


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
