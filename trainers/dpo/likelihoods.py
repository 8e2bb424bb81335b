"""log π of packed completions: the model's head at the places where a completion token is predicted, and no others.

Logits over a vocabulary of 49,000 are most of what a tree would hold in memory. So the model stops before its head, and
the head is applied to a few positions at a time. The gradient of log π(y) with respect to the hidden state before the
head,

    W_y − Σ_v π(v) W_v          (W_v: the head's row of token v),

is as wide as the hidden state and does not depend on what the loss makes of log π, so it is computed on the spot. A
model that does more to its logits than a frozen matrix product is asked for all its logits instead.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed, nn
from torch.autograd.function import once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear

from atlas_gym.agents.models.tree_attention import tree_options
from atlas_gym.trainers.dpo.packed import Branch, Pass, pack, room, wants_even

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but those that prepare themselves for each shape anew."""
_TRANSFORMED = (
    "final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling",
)  # fmt: skip
"""What configurations call it if logits are more than the head's product (the list of TRL's `add_fused_lm_head`)."""


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
            if ctx.needs_input_grad[0]:
                # Before the product, so that where a token is certain nothing large cancels.
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
