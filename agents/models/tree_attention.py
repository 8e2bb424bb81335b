"""Attention over packed trees that leaves out what their mask hides.

A tree is one sequence in which each token sees only its own beginning (`agents.models.token_trie`), so most of the
square of its scores is masked. Here consecutive tokens are taken together, and of the tokens that none of them sees the
longest run is left out. What remains is computed as a rectangle under its part of the mask. Any mask gives the result
of the dense computation; that of a trie with its trunk in front gives it for about a quarter of the work.

Scores and their softmax are float32, as in PyTorch's own kernels. The backward pass computes the scores again, so that
nothing is kept for it but queries, keys, values and the result.

Transformers knows this as the attention `NAME`. Without blocks, in training on other devices than the CPU and for what
it does not compute (dropout, biases), it is transformers' "sdpa".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "atlas_tree_sdpa"
"""What transformers knows this attention by."""

_ROWS = 128
"""Tokens of a block at most. With fewer, less is masked and products are smaller."""


@dataclass(frozen=True)
class Block:
    """Consecutive tokens, and those that they see."""

    rows: slice  # the tokens
    seen: tuple[slice, slice]  # two runs of tokens that hold all that they see
    # (rows, seen) float32, what is added to their scores: 0, or −∞ where a token does not see another
    bias: torch.Tensor


def use_tree_attention(model: PreTrainedModel) -> None:
    """Let a model that uses "sdpa" use this instead; one whose attention cannot be chosen stays as it is, and
    transformers says so."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(NAME)


def tree_options(model: PreTrainedModel, mask: torch.Tensor) -> dict[str, list[list[Block]]]:
    """What a call of the model is told besides the mask (B, 1, N, N), True where a token (row) sees another."""
    if model.config._attn_implementation != NAME or mask.device.type != "cpu":
        return {}
    return {"tree_blocks": tree_blocks(mask)}


def tree_blocks(mask: torch.Tensor) -> list[list[Block]]:
    """The blocks of each tree of such a mask."""
    return [
        [_block(visible, start) for start in range(0, len(visible), _ROWS)] for visible in mask[:, 0].numpy()
    ]


def _block(visible: np.ndarray, start: int) -> Block:
    rows = slice(start, min(start + _ROWS, len(visible)))
    own = visible[rows]
    columns = np.flatnonzero(own.any(0))
    gap = int(np.argmax(np.diff(columns, prepend=-1)))  # before this seen column most are skipped
    head, tail = int(columns[gap - 1]) + 1 if gap else 0, int(columns[gap])
    seen = (slice(int(columns[0]) if gap else 0, head), slice(tail, int(columns[-1]) + 1))
    hidden = ~np.concatenate([own[:, part] for part in seen], axis=1)
    bias = torch.zeros(hidden.shape).masked_fill_(torch.from_numpy(hidden), -torch.inf)
    return Block(rows, seen, bias)


class _TreeAttention(torch.autograd.Function):
    """(queries (K, G, N, D), keys (K, N, D), values (K, N, E), scaling, blocks) → (K, G, N, E), for K heads of keys
    that G heads of queries each share."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float,
        blocks: Sequence[Block],
    ) -> torch.Tensor:
        # Tokens in front: this is how the model's next layer wants to have it.
        output = query.new_empty(query.shape[2], *query.shape[:2], value.shape[-1]).permute(1, 2, 0, 3)
        for block in blocks:
            shares = _shares(query, key, scaling, block).to(value.dtype)
            result = shares @ _seen(value, block)
            output[:, :, block.rows] = result.unflatten(1, (query.shape[1], -1))
        ctx.save_for_backward(query, key, value, output)
        ctx.scaling, ctx.blocks = scaling, blocks
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, output = ctx.saved_tensors
        to_query = torch.empty_like(query)
        to_key, to_value = (torch.zeros_like(sums, dtype=torch.float32) for sums in (key, value))
        inner = (gradient * output).sum(-1, keepdim=True)
        for block in ctx.blocks:
            shares = _shares(query, key, ctx.scaling, block).to(value.dtype)
            own = _rows(gradient, block)
            _add_seen(to_value, shares.mT @ own, block)
            # Of a softmax: shares · (gradient − its mean under the shares).
            to_scores = own @ _seen(value, block).mT
            to_scores.sub_(_rows(inner, block)).mul_(shares).mul_(ctx.scaling)
            to_rows = to_scores @ _seen(key, block)
            to_query[:, :, block.rows] = to_rows.unflatten(1, (query.shape[1], -1))
            _add_seen(to_key, to_scores.mT @ _rows(query, block), block)
        return to_query, to_key.to(key.dtype), to_value.to(value.dtype), None, None


def _shares(query: torch.Tensor, key: torch.Tensor, scaling: float, block: Block) -> torch.Tensor:
    """The softmax of the block's scores, (K, G · rows, seen), float32."""
    with torch.autocast(query.device.type, enabled=False):  # which would round them to its own type
        scores = (_rows(query, block).float() * scaling) @ _seen(key, block).float().mT
    scores.unflatten(1, (query.shape[1], -1)).add_(block.bias)
    return scores.softmax(-1)


def _rows(tensor: torch.Tensor, block: Block) -> torch.Tensor:
    """The block's tokens of (K, G, N, D), query heads stacked: (K, G · rows, D)."""
    return tensor[:, :, block.rows].flatten(1, 2)


def _seen(tensor: torch.Tensor, block: Block) -> torch.Tensor:
    """What the block sees of (K, N, D)."""
    return torch.cat([tensor[:, part] for part in block.seen], dim=1)


def _add_seen(sums: torch.Tensor, values: torch.Tensor, block: Block) -> None:
    split = block.seen[0].stop - block.seen[0].start
    values = values.float()  # adding bfloat16 to float32 takes ten times as long
    sums[:, block.seen[0]] += values[:, :split]
    sums[:, block.seen[1]] += values[:, split:]


def attend_in_trees(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float,
    blocks: Sequence[Sequence[Block]],
) -> torch.Tensor:
    """Attention of queries (B, heads, N, D) to keys and values (B, key heads, N, D) of trees with these blocks."""
    trees = zip(query.unflatten(1, (key.shape[1], -1)), key, value, blocks, strict=True)
    outputs = [_TreeAttention.apply(*tree, scaling, own) for *tree, own in trees]
    return torch.stack([output.flatten(0, 1).transpose(0, 1) for output in outputs]).transpose(1, 2)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    tree_blocks: Sequence[Sequence[Block]] | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    biased = any(options.get(name) is not None for name in ("softcap", "position_bias", "s_aux"))
    alike = query.dtype == key.dtype == value.dtype
    if tree_blocks is not None and not (dropout or biased) and alike:
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        return attend_in_trees(query, key, value, scaling, tree_blocks).transpose(1, 2), None
    return sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **options
    )


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
