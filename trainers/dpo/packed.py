"""Packing: many completions in few passes of the model, as rows of tries.

Preference pairs of program edits share long prompts: 400 tokens of program, 10 of edit, eight edits per prompt. A row
is one sequence, of tries one after another, in which each token sees its own beginning at its own position, and each
common beginning is computed once. A CPU, whose time goes by tokens, gets each row by itself and
no longer than it is. A GPU takes as long to start a pass over one small model as to compute some thousand tokens: it
gets many rows at once, all of one width, so that few shapes occur, which a CUDA graph asks for.

Logits over a vocabulary of 49,000 are most of what a tree would hold in memory. So the model stops before its head, and
the head is applied to a few positions at a time, where a completion token is predicted. The gradient of log π(y) with
respect to the hidden state before the head,

    W_y − Σ_v π(v) W_v          (W_v: the head's row of token v),

is as wide as the hidden state and does not depend on what the loss makes of log π, so it is computed on the spot. A
model that does more to its logits than a frozen matrix product is asked for all its logits instead.

Prompts and completions are tokenised as generation does (`agents.models.tokens`), without an end-of-sequence token,
since the text goes on behind a completion.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.autograd.function import once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear

from atlas_gym.agents.models.token_trie import common_prefix
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.agents.models.tree_attention import tree_options

Branch = tuple[Sequence[int], Sequence[int]]
"""Tokens of a prompt and of one of its completions."""

_LARGEST = 1536
"""Tokens of a row at most."""
_LENGTHS = 64
"""Rows of a GPU are as long as a multiple of this."""
_INFERRED = 2**17
"""Tokens of a pass in inference at most: with more nothing is gained."""
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but those that prepare themselves for each shape anew."""
_TRAINING, _INFERENCE = 32, 8
"""Numbers as wide as the hidden state that a token holds in each layer at most, in training (all layers at once: 25
were measured, with adapters on all linear layers) and in inference (one layer's)."""
_TRANSFORMED = (
    "final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling",
)  # fmt: skip
"""What configurations call it if logits are more than the head's product (the list of TRL's `add_fused_lm_head`)."""


def encode_branch(tokenizer: Any, prompt: str, completion: str) -> Branch:
    """A prompt and what stands behind it, as tokens."""
    return encode_prompt(tokenizer, prompt), encode_completion(tokenizer, prompt, completion)


@dataclass(frozen=True)
class Pass:
    """What goes through the model at once: B sequences of T tokens, with M completion tokens that are predicted.
    Tensors are as `to` puts them."""

    # arguments of the model: ``input_ids`` and ``position_ids`` (B, T), and ``ends`` (B, T): a token is seen from
    # itself up to its end
    inputs: dict[str, torch.Tensor]
    places: torch.Tensor  # (M,) where each completion token is predicted, of B · T
    targets: torch.Tensor  # (M,) its id
    owners: torch.Tensor  # (M,) which branch it belongs to, of `lengths`; to none if it is but padding
    lengths: tuple[int, ...]  # completion tokens of each branch

    def to(self, device: torch.device) -> "Pass":
        """The same with its tensors on `device`."""
        if device.type == "cpu":
            return self
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in moved.items():
            if isinstance(value, torch.Tensor):
                moved[name] = value.to(device, non_blocking=True)
        inputs = {name: tensor.to(device, non_blocking=True) for name, tensor in self.inputs.items()}
        return replace(self, **moved | {"inputs": inputs})

    def per_branch(self, values: torch.Tensor) -> torch.Tensor:
        """Sums of (M,) values over the tokens of each branch."""
        return values.new_zeros(len(self.lengths) + 1).index_add_(0, self.owners, values)[:-1]


@dataclass(frozen=True)
class Line:
    """Branches in the order in which rows are filled: that of their tokens, so that what begins alike is together."""

    branches: Sequence[Branch]
    order: list[int]  # indices of the branches
    common: list[int]  # how many tokens each has in common with the one before it in this order

    def rows(self, width: int) -> list[list[int]]:
        """Indices of the branches by row; what is longer than `width` is alone in its row."""
        found: list[list[int]] = []
        used = 0
        for index, common in zip(self.order, self.common, strict=True):
            length = sum(map(len, self.branches[index]))
            if not found or used + length - common > width:
                found.append([])
                used, common = 0, 0
            found[-1].append(index)
            used += length - common
        return found


def line(branches: Sequence[Branch]) -> Line:
    """These branches in a line."""
    whole = [[*prompt, *completion] for prompt, completion in branches]
    order = sorted(range(len(whole)), key=whole.__getitem__)
    common = [common_prefix(whole[one], whole[other]) for one, other in pairwise(order)]
    return Line(branches, order, [0, *common])


def width(lines: Sequence[Line], limit: int = _LARGEST) -> int:
    """Of rows that take the fewest tokens if each of these lines has as many as the one that needs most; at most
    `limit`, unless a branch is longer."""
    longest = max(sum(map(len, branch)) for each in lines for branch in each.branches)
    wide = range(
        -(-longest // _LENGTHS) * _LENGTHS, max(longest + _LENGTHS, min(limit, _LARGEST) + 1), _LENGTHS
    )
    return min(wide, key=lambda width: (max(len(each.rows(width)) for each in lines) * width, width))


def rows(
    own: Line, groups: Sequence[Sequence[int]], width: int = 0, at_least: tuple[int, int] = (0, 0)
) -> Pass:
    """Rows of tries out of the branches with these indices, by row, all of this width or of that of the longest.
    `at_least` so many rows and completion tokens: what is added belongs to no branch."""
    filled: list[tuple[list[int], list[int], list[int]]] = []  # ids, positions and ends of each row
    paths: dict[int, tuple[int, list[int]]] = {}  # of each branch, its row and the places of its tokens there
    for number, group in enumerate(groups):
        ids, positions, ends = row = ([], [], [])  # type: tuple[list[int], list[int], list[int]]
        path: list[int] = []
        before: list[int] = []
        for index in group:
            sequence = [*own.branches[index][0], *own.branches[index][1]]
            common = common_prefix(before, sequence)
            for place in path[common:]:
                ends[place] = len(ids)
            path = [*path[:common], *range(len(ids), len(ids) + len(sequence) - common)]
            ids += sequence[common:]
            positions += range(common, len(sequence))
            ends += [0] * (len(sequence) - common)
            before, paths[index] = sequence, (number, path)
        for place in path:
            ends[place] = len(ids)
        filled.append(row)
    wide = max(width, *(len(ids) for ids, *_ in filled)) if filled else width
    inputs = np.zeros((3, max(len(filled), at_least[0]), wide), dtype=np.int64)
    inputs[2] = np.arange(1, wide + 1)  # what is not used sees itself, lest it be NaN
    for number, row in enumerate(filled):
        inputs[:, number, : len(row[0])] = row
    chosen = [(own.branches[index], *paths[index]) for index in sorted(paths)]
    # Token j of a completion is predicted at its token j - 1, and the first one at the end of the prompt.
    places = [
        number * wide + place for (prompt, _), number, path in chosen for place in path[len(prompt) - 1 : -1]
    ]
    targets = [token for (_, completion), *_ in chosen for token in completion]
    lengths = tuple(len(completion) for (_, completion), *_ in chosen)
    owners = np.repeat(range(len(lengths)), lengths)
    more = max(0, at_least[1] - len(targets))
    return Pass(
        dict(zip(("input_ids", "position_ids", "ends"), torch.from_numpy(inputs), strict=True)),
        torch.tensor([*places, *[0] * more]),
        torch.tensor([*targets, *[0] * more]),
        torch.from_numpy(np.pad(owners, (0, more), constant_values=len(lengths))),
        lengths,
    )


@dataclass(frozen=True)
class Packing:
    """Branches in passes."""

    passes: list[Pass]  # each distinct branch is in one of them, once
    # of every branch in the order given: its number among those of all passes, these one after another
    places: list[int]


def pack(branches: Sequence[Branch], limit: int, even: bool) -> Packing:
    """Passes of at most `limit` tokens out of branches, of rows of one width if they are to be `even`, else of one row
    each. A branch longer than that has a row of its own."""
    distinct = list(dict.fromkeys((tuple(prompt), tuple(completion)) for prompt, completion in branches))
    own = line(distinct)
    wide = width([own], limit) if even else limit
    filled, at_once = own.rows(wide), max(1, limit // wide)
    parts = [filled[first : first + at_once] for first in range(0, len(filled), at_once)]
    passes = [rows(own, part, wide if even else 0) for part in parts]
    order = [index for part in parts for index in sorted(index for row in part for index in row)]
    number = {distinct[index]: n for n, index in enumerate(order)}
    return Packing(passes, [number[tuple(prompt), tuple(completion)] for prompt, completion in branches])


def wants_even(device: torch.device) -> bool:
    """Whether rows are to be even there; the module's description says why."""
    return device.type != "cpu"


def room(model: Any, training: bool, checkpointed: bool = False) -> int:
    """Tokens of a pass that the model's device has memory for, at most; on a CPU, how many are worth one."""
    if model.device.type != "cuda":
        return _LARGEST
    config = model.config.get_text_config()
    free = (
        torch.cuda.mem_get_info(model.device)[0]
        + torch.cuda.memory_reserved(model.device)
        - torch.cuda.memory_allocated(model.device)
    )
    wide = _INFERENCE
    if training:
        wide = config.num_hidden_layers * (1 if checkpointed else _TRAINING) + _TRAINING
    # Half of it: the head's logits, the optimiser and what the allocator cannot use need some as well.
    found = max(_LARGEST, int(free / 2 / (wide * config.hidden_size * model.dtype.itemsize)))
    return found if training else min(found, _INFERRED)


def _forward(model: Any, batch: Pass, head: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """What `head` makes of the hidden states (M, D) at the needed places, and the model of that."""
    layer = model.get_output_embeddings()
    patched = vars(layer).get("forward")
    layer.forward = lambda hidden: head(hidden.flatten(0, 1)[batch.places])[None]
    inputs = dict(batch.inputs)
    inputs["attention_mask"] = _seen(model, inputs.pop("ends"))
    try:
        with sdpa_kernel(_KERNELS):
            output = model(**inputs, use_cache=False, **tree_options(model, inputs["attention_mask"]))
    finally:
        del layer.forward
        if patched is not None:
            layer.forward = patched
    return output.logits[0]


def _seen(model: Any, ends: torch.Tensor) -> torch.Tensor:
    """The mask (B, 1, T, T): on a GPU what is added to scores, of which its kernels make nothing else."""
    places = torch.arange(ends.shape[1], device=ends.device)
    seen = (places <= places[:, None]) & (places[:, None] < ends[:, None])
    if ends.device.type == "cpu":
        return seen[:, None]
    bias = torch.zeros(seen.shape, dtype=model.dtype, device=ends.device)
    return bias.masked_fill_(~seen, torch.finfo(model.dtype).min)[:, None]


def logits(model: Any, batch: Pass) -> torch.Tensor:
    """Next-token logits at the M needed places, (M, vocabulary) in float32."""
    return _forward(model, batch, model.get_output_embeddings().forward).float()


def lazy_logits(model: Any, batch: Pass) -> Callable[[slice], torch.Tensor]:
    """A function of a slice of the M places that gives its rows of `logits`, where possible made when it is called."""
    head = _plain_head(model)
    if head is None:
        return logits(model, batch).__getitem__
    hidden = _forward(model, batch, lambda hidden: hidden)
    return lambda here: head(hidden[here]).float()


def _plain_head(model: Any) -> nn.Linear | None:
    """The head, if logits are its frozen product and nothing else."""
    head, config = model.get_output_embeddings(), model.config.get_text_config()
    transformed = any(getattr(config, name, None) is not None for name in _TRANSFORMED)
    plain = (
        not transformed and type(head) is nn.Linear and head.bias is None and not head.weight.requires_grad
    )
    return head if plain else None


def token_values(model: Any, batch: Pass) -> tuple[torch.Tensor, torch.Tensor]:
    """For each completion token of a pass under the model's active adapter, (M,) in float32: log π of it, and, without
    a gradient, the entropy of the distribution that it was predicted from, nats."""
    if (head := _plain_head(model)) is None:
        logs = logits(model, batch).log_softmax(-1)
        log_probs = logs.gather(1, batch.targets[:, None])[:, 0]
        return log_probs, _entropy(logs.detach(), logs.detach().exp())
    hidden = _forward(model, batch, lambda hidden: hidden)
    weight = head.weight
    if torch.is_autocast_enabled(weight.device.type):  # once, not once for every few places
        weight = weight.to(torch.get_autocast_dtype(weight.device.type))
    return _Head.apply(hidden.to(weight.dtype), weight, batch.targets)


class _Head(torch.autograd.Function):
    """(hidden (M, D), weight (V, D), targets (M,)) → log π (M,), and the entropy at each place (M,)."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        log_probs = hidden.new_empty(len(targets), dtype=torch.float32)
        slope, entropy = torch.empty_like(hidden), torch.empty_like(log_probs)
        size = chunk(hidden.device)
        for start in range(0, len(hidden), size):
            here = slice(start, start + size)
            ids = targets[here, None]
            logs = linear(hidden[here], weight).float().log_softmax(-1)
            log_probs[here] = logs.gather(1, ids)[:, 0]
            shares = logs.exp()
            entropy[here] = _entropy(logs, shares)
            if ctx.needs_input_grad[
                0
            ]:  # before the product, so that where a token is certain nothing large cancels
                shares.scatter_add_(1, ids, -torch.ones_like(shares[:, :1]))
                slope[here] = -(shares.to(weight.dtype) @ weight)
        ctx.save_for_backward(slope)
        ctx.mark_non_differentiable(entropy)
        return log_probs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return (gradient[:, None] * slope).to(slope.dtype), None, None


def _entropy(logs: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    return -torch.linalg.vecdot(shares, logs)


def chunk(device: torch.device) -> int:
    """Places whose distributions over the vocabulary are held at once (float32: 0.2 MB each at 49k tokens)."""
    return 64 if device.type == "cpu" else 1024


def log_likelihoods(model: Any, branches: Sequence[Branch], even: bool | None = None) -> list[float]:
    """log π(y|x) in nats of each branch under the model's active adapter, the completion's end included; several
    processes take passes in turn. `even`: as `pack` has it, by default as suits the device."""
    even = wants_even(model.device) if even is None else even
    packing = pack(branches, room(model, training=False), even)
    sums = []
    with torch.inference_mode():
        for index, batch in enumerate(packing.passes):
            if mine(index):
                here = batch.to(model.device)
                sums.append(here.per_branch(token_values(model, here)[0]))
            else:
                sums.append(torch.zeros(len(batch.lengths), device=model.device))
        found = totals(torch.cat(sums)).tolist()
    return [found[place] for place in packing.places]


def processes() -> tuple[int, int]:
    """This process's number and how many there are; 0 and 1 without `torch.distributed`."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def mine(index: int) -> bool:
    """Whether this process takes that item; the processes take them in turn."""
    rank, size = processes()
    return index % size == rank


def totals(values: torch.Tensor) -> torch.Tensor:
    """Sum of each value over the processes, the same everywhere; in place."""
    if processes()[1] > 1:
        distributed.all_reduce(values)
    return values
