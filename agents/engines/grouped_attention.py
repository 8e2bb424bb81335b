"""Attention for many samples of few prompts: grouped heads folded into the query axis.

With grouped-query attention several query heads share one key/value head. Given a mask, transformers' SDPA
path copies keys and values once per query head first, and while decoding that copy costs more than the
attention itself. Stacking the query heads of a group along the query axis gives the same numbers without the
copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "atlas_grouped_sdpa"


def _grouped_sdpa(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    batch, heads, length, width = query.shape
    group = heads // key.shape[1]
    # A mask that differs between heads, a position bias or no mask at all is not folded: transformers knows
    # how.
    biased = options.get("position_bias") is not None
    if attention_mask is None or attention_mask.shape[1] != 1 or group == 1 or biased:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    folded = query.reshape(batch, heads // group, group * length, width)
    mask = attention_mask.repeat(1, 1, group, 1)
    output = scaled_dot_product_attention(
        folded, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
    )
    return output.reshape(batch, heads, length, -1).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _grouped_sdpa)
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextlib.contextmanager
def grouped_attention(model: Any) -> Iterator[None]:
    """Let ``model`` use the folded attention inside the block, if it uses SDPA otherwise."""
    before = model.config._attn_implementation
    if before != "sdpa":
        yield
        return
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
