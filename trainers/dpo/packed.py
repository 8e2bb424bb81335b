"""Packing: many completions in few passes of the model, as trees or as rows of tries.

Preference pairs of program edits share long prompts: 400 tokens of program, 10 of edit, eight edits per prompt.

- A *tree* is one sequence, the trie of all prompts and completions (`agents.models.token_trie`), in which each token
  sees its own beginning at its own position. Each common beginning is computed once: on a CPU, whose time goes by
  tokens, that is a fifth of the work.
- *Rows* are all of one width, and each holds as many such tries one after another as it has room for. A GPU takes as
  long to start a pass over one small model as to compute some thousand tokens: few passes, of few shapes, which a CUDA
  graph asks for.

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
from typing import Any, Literal

import numpy as np
import torch
from torch import distributed, nn
from torch.autograd.function import once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear

from atlas_gym.agents.models.token_trie import common_prefix, families, token_trie
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.agents.models.tree_attention import tree_options

Layout = Literal["trees", "rows"]

Branch = tuple[Sequence[int], Sequence[int]]
"""Tokens of a prompt and of one of its completions."""

_LARGEST = 1536
"""Tokens of a tree at most: attention over a tree costs the square of it."""
_SHARE = 0.25
"""What a branch has in common with another of its tree, at least, as a share of its own length."""
_LENGTHS = 64
"""Rows are as long as a multiple of this, so that few shapes occur."""
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
    """What goes through the model at once: B sequences of T tokens, with M completion tokens that are predicted from
    K ≤ M distinct places. Tensors are as `to` puts them."""

    # arguments of the model: ``input_ids`` and ``position_ids`` (B, T); for a tree also ``attention_mask`` (1, 1, T,
    # T), True where a token (row) sees another; for rows ``ends`` (B, T): a token is seen from itself up to its end
    inputs: dict[str, torch.Tensor]
    places: torch.Tensor  # (K,) where logits are needed, ascending, of B · T
    rows: torch.Tensor  # (M,) for each completion token, which of these K predicts it, ascending
    targets: torch.Tensor  # (M,) its id
    owners: torch.Tensor  # (M,) which branch it belongs to, of `lengths`
    main: torch.Tensor  # (K,) one of the tokens that each place predicts
    others: torch.Tensor  # indices of the completion tokens that are not their place's main one
    lengths: tuple[int, ...]  # completion tokens of each branch
    first: np.ndarray  # (K + 1,) how many completion tokens are predicted from earlier places

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


def _pass(
    inputs: dict[str, torch.Tensor], paths: Sequence[Sequence[int]], branches: Sequence[Branch]
) -> Pass:
    """`paths`: of each branch, the places of its tokens."""
    # Token j of a completion is predicted at its token j - 1, and the first one at the end of the prompt.
    predictors = [path[len(prompt) - 1 : -1] for path, (prompt, _) in zip(paths, branches, strict=True)]
    places, rows = np.unique(np.concatenate(predictors), return_inverse=True)
    lengths = tuple(len(completion) for _, completion in branches)
    targets = np.concatenate([completion for _, completion in branches])
    order = np.argsort(rows, kind="stable")
    rows, targets, owners = rows[order], targets[order], np.repeat(range(len(branches)), lengths)[order]
    first = np.searchsorted(rows, np.arange(len(places) + 1))
    main = targets[first[:-1]]
    others = np.flatnonzero(targets != main[rows])
    where = [torch.from_numpy(own) for own in (places, rows, targets, owners, main, others)]
    return Pass(inputs, where[0], where[1], where[2], where[3], where[4], where[5], lengths, first)


def tree(branches: Sequence[Branch]) -> Pass:
    """One sequence out of prompts and completions, all non-empty token lists, in which each distinct beginning stands
    once."""
    trie = token_trie([[*prompt, *completion] for prompt, completion in branches])
    inputs = {
        "input_ids": torch.tensor([trie.tokens]),
        "position_ids": torch.tensor([trie.depths]),
        "attention_mask": trie.visible()[None, None],
    }
    return _pass(inputs, trie.paths, branches)


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


def rows(own: Line, groups: Sequence[Sequence[int]], width: int, at_least: tuple[int, int] = (0, 0)) -> Pass:
    """Rows of tries out of the branches with these indices, by row. Each completion token has a place of its own.
    `at_least` so many rows and completion tokens: what is added belongs to no branch."""
    count = max(len(groups), at_least[0])
    ids, positions = np.zeros((2, count, width), dtype=np.int64)
    ends = np.tile(np.arange(1, width + 1), (count, 1))  # what is not used sees itself, lest it be NaN
    paths: dict[int, np.ndarray] = {}
    for row, group in enumerate(groups):
        before: list[int] = []
        path, used = np.zeros(0, dtype=np.int64), 0
        for index in group:
            sequence = [*own.branches[index][0], *own.branches[index][1]]
            common = common_prefix(before, sequence)
            ends[row, path[common:]] = used
            fresh = np.arange(used, used + len(sequence) - common)
            ids[row, fresh], positions[row, fresh] = sequence[common:], np.arange(common, len(sequence))
            path, before, used = np.concatenate([path[:common], fresh]), sequence, used + len(fresh)
            paths[index] = row * width + path
        ends[row, path] = used
    chosen = [(own.branches[index], paths[index]) for index in sorted(paths)]
    places = np.concatenate([path[len(prompt) - 1 : -1] for (prompt, _), path in chosen])
    targets = np.concatenate([completion for (_, completion), _ in chosen]).astype(np.int64)
    lengths = tuple(len(completion) for (_, completion), _ in chosen)
    owners = np.repeat(range(len(lengths)), lengths)
    more = max(0, at_least[1] - len(targets))
    places, targets = (np.pad(values, (0, more)) for values in (places, targets))
    owners = np.pad(owners, (0, more), constant_values=len(lengths))
    where = [torch.from_numpy(values) for values in (places, np.arange(len(targets)), targets, owners)]
    inputs = dict(
        zip(("input_ids", "position_ids", "ends"), map(torch.from_numpy, (ids, positions, ends)), strict=True)
    )
    return Pass(
        inputs,
        where[0],
        where[1],
        where[2],
        where[3],
        where[2],
        where[3][:0],
        lengths,
        np.arange(len(targets) + 1),
    )


@dataclass(frozen=True)
class Packing:
    """Branches in passes."""

    passes: list[Pass]  # each distinct branch is in one of them, once
    # of every branch in the order given: its number among those of all passes, these one after another
    places: list[int]


def pack(branches: Sequence[Branch], layout: Layout, limit: int = _LARGEST) -> Packing:
    """Passes of at most `limit` tokens out of branches; in a tree are those that begin alike. What is longer than that
    by itself has one of its own."""
    distinct = list(dict.fromkeys((tuple(prompt), tuple(completion)) for prompt, completion in branches))
    if layout == "trees":
        groups = families([prompt + completion for prompt, completion in distinct], share=_SHARE, limit=limit)
        passes = [tree([distinct[index] for index in group]) for group in groups]
    else:
        own = line(distinct)
        wide = width([own], limit)
        filled, at_once = own.rows(wide), max(1, limit // wide)
        parts = [filled[first : first + at_once] for first in range(0, len(filled), at_once)]
        passes = [rows(own, part, wide) for part in parts]
        groups = [sorted(index for row in part for index in row) for part in parts]
    number = {distinct[index]: n for n, index in enumerate(index for group in groups for index in group)}
    return Packing(passes, [number[tuple(prompt), tuple(completion)] for prompt, completion in branches])


def layout(device: torch.device) -> Layout:
    """How branches are laid out there; the module's description says why."""
    return "trees" if device.type == "cpu" else "rows"


def room(model: Any, training: bool, checkpointed: bool = False) -> int:
    """Tokens of a pass that the model's device has memory for, at most; of a tree on a CPU, how many are worth one."""
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
    """What `head` makes of the hidden states (K, D) at the needed places, and the model of that."""
    layer = model.get_output_embeddings()
    patched = vars(layer).get("forward")
    layer.forward = lambda hidden: head(hidden.flatten(0, 1)[batch.places])[None]
    inputs = dict(batch.inputs)
    if (ends := inputs.pop("ends", None)) is not None:
        inputs["attention_mask"] = _seen(model, ends)
    try:
        with sdpa_kernel(_KERNELS):
            output = model(**inputs, use_cache=False, **tree_options(model, inputs["attention_mask"]))
    finally:
        del layer.forward
        if patched is not None:
            layer.forward = patched
    return output.logits[0]


def _seen(model: Any, ends: torch.Tensor) -> torch.Tensor:
    """The mask (B, 1, T, T) of rows: on a GPU what is added to scores, of which its kernels make nothing else."""
    places = torch.arange(ends.shape[1], device=ends.device)
    seen = (places <= places[:, None]) & (places[:, None] < ends[:, None])
    if ends.device.type == "cpu":
        return seen[:, None]
    bias = torch.zeros(seen.shape, dtype=model.dtype, device=ends.device)
    return bias.masked_fill_(~seen, torch.finfo(model.dtype).min)[:, None]


def logits(model: Any, batch: Pass) -> torch.Tensor:
    """Next-token logits at the K needed places, (K, vocabulary) in float32."""
    return _forward(model, batch, model.get_output_embeddings().forward).float()


def lazy_logits(model: Any, batch: Pass) -> Callable[[slice], torch.Tensor]:
    """A function of a slice of the K places that gives its rows of `logits`, where possible made when it is called."""
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
        log_probs, entropy = logs[batch.rows, batch.targets], _entropy(logs.detach(), logs.detach().exp())
    else:
        hidden = _forward(model, batch, lambda hidden: hidden)
        weight = head.weight
        if torch.is_autocast_enabled(weight.device.type):  # once, not once for every few places
            weight = weight.to(torch.get_autocast_dtype(weight.device.type))
        log_probs, entropy = _Head.apply(hidden.to(weight.dtype), weight, batch)
    return log_probs, entropy[batch.rows]


class _Head(torch.autograd.Function):
    """(hidden (K, D), weight (V, D), pass) → log π (M,), and the entropy at each place (K,)."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, batch: Pass
    ) -> tuple[torch.Tensor, ...]:
        # Of the tokens that a place predicts, one stands for all in `slope`, so that where it is nearly certain
        # nothing large cancels.
        log_probs = hidden.new_empty(len(batch.rows), dtype=torch.float32)
        slope, entropy = torch.empty_like(hidden), log_probs.new_empty(len(hidden))
        size = chunk(hidden.device)
        for start in range(0, len(hidden), size):
            end = min(start + size, len(hidden))
            here, tokens = slice(start, end), slice(batch.first[start], batch.first[end])
            logs = linear(hidden[here], weight).float().log_softmax(-1)
            log_probs[tokens] = logs[batch.rows[tokens] - start, batch.targets[tokens]]
            shares = logs.exp()
            entropy[here] = _entropy(logs, shares)
            if ctx.needs_input_grad[0]:
                shares.scatter_add_(1, batch.main[here, None], -torch.ones_like(shares[:, :1]))
                slope[here] = -(shares.to(weight.dtype) @ weight)
        ctx.save_for_backward(slope, weight)
        ctx.batch = batch
        ctx.mark_non_differentiable(entropy)
        return log_probs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
        (slope, weight), batch = ctx.saved_tensors, ctx.batch
        sums = gradient.new_zeros(len(slope)).index_add_(0, batch.rows, gradient)
        to_hidden = sums[:, None] * slope
        if len(batch.others):
            places = batch.rows[batch.others]
            difference = weight[batch.targets[batch.others]].float() - weight[batch.main[places]].float()
            to_hidden.index_add_(0, places, gradient[batch.others, None] * difference)
        return to_hidden.to(slope.dtype), None, None


def _entropy(logs: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    return -torch.linalg.vecdot(shares, logs)


def chunk(device: torch.device) -> int:
    """Places whose distributions over the vocabulary are held at once (float32: 0.2 MB each at 49k tokens)."""
    return 64 if device.type == "cpu" else 1024


def log_likelihoods(model: Any, branches: Sequence[Branch], how: Layout | None = None) -> list[float]:
    """log π(y|x) in nats of each branch under the model's active adapter, the completion's end included; several
    processes take passes in turn. `how` they are laid out: as suits the device."""
    packing = pack(branches, how or layout(model.device), room(model, training=False))
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
