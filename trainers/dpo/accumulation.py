"""What a step of DPO is computed from: a batch in parts that go through the model together, their losses, and the
gradients that they add to the adapter's.

On a GPU all parts of a training have one shape, so that forward and backward are one CUDA graph, and nothing waits for
the device.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import logsigmoid

from atlas_gym.agents.models.captured import Captured
from atlas_gym.agents.models.policy import Learner, Policy
from atlas_gym.trainers.data.measures import grouped
from atlas_gym.trainers.dpo.likelihoods import processes, token_values
from atlas_gym.trainers.dpo.packed import Branch, Line, Pass, pack, rows, width
from atlas_gym.trainers.dpo.settings import PhaseSettings

_TOKENS = 64
"""Completion tokens of a row's part are a multiple of this."""


@dataclass(frozen=True)
class Example:
    """A pair as tokens, with what the reference makes of it."""

    chosen: Branch
    rejected: Branch
    reference: tuple[float, float] = (0.0, 0.0)  # log π_ref of both completions


@dataclass(frozen=True)
class Part:
    """Pairs of a batch that go through the model together, as tensors: P pairs, some of them empty."""

    passes: list[Pass]  # that hold the completions
    # (2P,) of each chosen and then each rejected one: its number among those of the passes
    places: torch.Tensor
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


def uneven_parts(batches: Sequence[Sequence[Example]], most: int) -> Parts:
    """The rows of a batch are one part."""
    for batch in batches:
        own = _own(batch)
        packing = pack([each.chosen for each in own] + [each.rejected for each in own], most, False)
        yield [_part(packing.passes, packing.places, own, batch)] if own else []


def even_parts(batches: Sequence[Sequence[Example]], most: int) -> Parts:
    """All parts of all batches have one shape, that of the largest, with as many pairs as there is room for."""
    empty, owns, pairs = Example(((), ()), ((), ())), list(map(_own, batches)), len(batches[0])
    while any(owns):
        cut = [[own[i : i + pairs] for i in range(0, len(own), pairs)] for own in owns]
        whole = [[part + [empty] * (pairs - len(part)) for part in parts] for parts in cut]
        lines = [
            [Line([each.chosen for each in part] + [each.rejected for each in part]) for part in parts]
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
        with precision(self._policy, self._settings):
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


def precision(policy: Policy, settings: PhaseSettings) -> torch.autocast:
    return torch.autocast(policy.device.type, torch.bfloat16, enabled=settings.bf16)


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
