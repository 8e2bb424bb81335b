"""Attention of many samples to prompts that they share, for reading and for writing alike.

Keys and values lie in two parts. The *prompt* part has one row of columns for each family of requests, whose prompts
begin alike; the *own* part has a few columns for each row of a family, be it a request's own end of the prompt or what
a sample has drawn. One softmax goes over both, so the result is that of attention over the whole text. Prompts are
neither read nor kept once per sample, which on a CPU decides the speed; every shape is fixed, which a CUDA graph asks
for. Query heads that share a key are stacked: keys are never copied per head.

Transformers knows this as the attention `NAME`: a model that is called with ``attend=`` lets that function store the
keys and values of a layer, and attend.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from atlas_gym.agents.engines.engine import EngineError

NAME = "atlas_shared_prompts"
"""What transformers knows this attention by."""

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]
"""(layer, queries (F, heads, N, D), keys and values (F, key heads, N, D), scaling) → (F, heads, N, D)."""

HIDDEN = torch.finfo(torch.float32).min
"""What is added to the score of a column that is not seen. Finite, so that padding, which sees nothing, is a number."""


def bias(seen: torch.Tensor) -> torch.Tensor:
    """What is added to scores, float32, where a mask says which columns are seen."""
    return torch.zeros_like(seen, dtype=torch.float32).masked_fill_(~seen, HIDDEN)


def attend_to_both(
    query: torch.Tensor,
    prompt: tuple[torch.Tensor, torch.Tensor],
    prompt_bias: torch.Tensor,
    own: tuple[torch.Tensor, torch.Tensor],
    own_bias: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """Attention for F families of R rows with T tokens each; returns (F, heads, T · R, D).

    Queries are (F, heads, T · R, D), the first token of all rows first; keys and values of the families' prompts (F,
    key heads, C, D), of the rows (F, R, key heads, M, D). To the scores are added `prompt_bias` (F, T · R, C) and
    `own_bias` (F, R, T, M), or what broadcasts.
    """
    (keys, values), (own_keys, own_values) = prompt, own
    families, rows, kinds, columns = *own_keys.shape[:3], keys.shape[2]
    group, tokens = query.shape[1] // kinds, query.shape[2] // rows
    stacked = query.reshape(families, kinds, -1, query.shape[-1])
    apart = query.reshape(families, kinds, group, tokens, rows, -1).permute(0, 4, 1, 2, 3, 5).flatten(3, 4)
    scores = (stacked @ keys.mT).float().mul_(scaling).unflatten(2, (group, -1))
    scores += prompt_bias[:, None, None]
    own_scores = (apart @ own_keys.mT).float().mul_(scaling).unflatten(3, (group, tokens))
    own_scores += own_bias[:, :, None, None]
    both = [scores.flatten(2, 3), own_scores.permute(0, 2, 3, 4, 1, 5).flatten(2, 4)]
    shares = torch.cat(both, dim=-1).softmax(-1).to(values.dtype)
    own_shares = shares[..., columns:].view(families, kinds, group, tokens, rows, -1)
    from_own = own_shares.permute(0, 4, 1, 2, 3, 5).flatten(3, 4) @ own_values
    from_own = from_own.unflatten(3, (group, tokens)).permute(0, 2, 3, 4, 1, 5)
    return (shares[..., :columns] @ values).view_as(from_own).add(from_own).flatten(3, 4).flatten(1, 2)


@contextmanager
def shared_prompts(model: PreTrainedModel) -> Iterator[None]:
    """Let the model attend by `attend=` within the block; EngineError if its attention cannot be chosen."""
    before = model.config._attn_implementation
    if not type(model)._supports_attention_backend:
        raise EngineError(
            f"{type(model).__name__} does not let its attention be chosen, so this engine cannot write with it: use "
            "the engine vllm, or serve the model and use openai"
        )
    model.config._attn_implementation = NAME
    try:
        yield
    finally:
        model.config._attn_implementation = before


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    attend: Attend,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    for name in ("softcap", "position_bias", "s_aux"):
        if options.get(name) is not None:
            raise EngineError(
                f"the attention of this model has a {name}, which this engine does not compute: use the engine vllm"
            )
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: Any = module.layer_idx
    return attend(layer, query, key, value, scaling).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
