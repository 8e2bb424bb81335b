"""What a model says of the completion tokens of a tree, without the logits of a whole tree.

Logits over a vocabulary of 49,000 are most of what a tree would hold in memory, several times over: as the model's
own, in float32, as log-probabilities and as their gradient. Here the model stops before its head, and the head is
applied to a few positions at a time. The gradient of log π(y) with respect to the hidden state before it,

    W_y − Σ_v π(v) W_v          (W_v: the head's row of token v),

is as wide as the hidden state and does not depend on what the loss makes of log π. So it is computed on the spot,
and nothing as wide as the vocabulary is kept.

A model that does more to its logits than a frozen matrix product is asked for all its logits instead.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from accelerate.utils import extract_model_from_parallel
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from atlas_gym.trainers.evodpo import processes
from atlas_gym.trainers.evodpo.packing import Branch, Tree, plant, to_device, tree_logits, tree_output

_ROWS = 64
"""Positions whose distributions over the vocabulary are held at once (float32: 13 MB each at 49k tokens)."""

_TRANSFORMED = (
    "final_logit_softcapping",
    "logit_scale",
    "output_multiplier",
    "lm_head_multiplier",
    "logits_scaling",
)
"""What configurations call it if logits are more than the head's product (the list of TRL's `add_fused_lm_head`)."""


class TokenValues(NamedTuple):
    """Values of each completion token of a tree, all (M,), as TRL's fused head defines them."""

    log_probs: torch.Tensor
    """log π of the token; the only one with a gradient."""
    entropy: torch.Tensor
    """Entropy of the distribution that it was predicted from, nats."""
    mean_logits: torch.Tensor
    """Mean over the vocabulary of the logits that it was predicted from."""
    is_top1: torch.Tensor
    """Whether it is the likeliest one."""


def token_values(model: Any, tree: Tree) -> TokenValues:
    """The values of a tree's completion tokens under the model's active adapter; float32."""
    rows, targets = tree["rows"], tree["targets"]
    head = _plain_head(model)
    if head is None:
        logits = tree_logits(model, tree)
        logs = logits.log_softmax(-1)
        log_probs = logs[rows, targets]
        entropy, mean, best = _statistics(logits.detach(), logs.detach(), logs.detach().exp())
    else:
        with _silent(head):
            hidden = tree_output(model, tree)
        weight = head.weight
        if torch.is_autocast_enabled(weight.device.type):  # once, not once for every few positions
            weight = weight.to(torch.get_autocast_dtype(weight.device.type))
        log_probs, entropy, mean, best = _Values.apply(hidden.to(weight.dtype), weight, rows, targets)
    return TokenValues(log_probs, entropy[rows], mean[rows], best[rows] == targets)


def completion_log_probs(model: Any, tree: Tree) -> torch.Tensor:
    """log π(y|x) of each completion of a tree, (completions,), under the model's active adapter."""
    values, owners = token_values(model, tree).log_probs, tree["owners"]
    return values.new_zeros(int(owners[-1]) + 1).index_add_(0, owners, values)


def branch_log_probs(model: Any, branches: Sequence[Branch], device: torch.device) -> list[float]:
    """log π(y|x) of each branch, under the model's active adapter; several processes take trees in turn."""
    forest = plant(branches)
    found: dict[tuple[int, int], float] = {}
    for index in processes.share(range(len(forest.trees))):
        sums = completion_log_probs(model, to_device(forest.trees[index], device)).tolist()
        found |= {(index, branch): value for branch, value in enumerate(sums)}
    return processes.totals([found.get(place, 0.0) for place in forest.places], device)


def _plain_head(model: Any) -> nn.Linear | None:
    """The model's head if logits are its product with a frozen matrix and nothing else."""
    model = extract_model_from_parallel(model)
    head = model.get_output_embeddings()
    config = model.config.get_text_config()
    transformed = any(getattr(config, name, None) is not None for name in _TRANSFORMED)
    if transformed or type(head) is not nn.Linear or head.bias is not None or head.weight.requires_grad:
        return None
    return head


@contextmanager
def _silent(head: Any) -> Iterator[None]:
    """Let the head hand on what it is given."""
    own = vars(head).get("forward")
    head.forward = lambda hidden: hidden
    try:
        yield
    finally:
        del head.forward
        if own is not None:
            head.forward = own


class _Values(torch.autograd.Function):
    """(hidden (K, D), weight (V, D), rows (M,), targets (M,)) → log π (M,); entropy, mean logit and likeliest token of
    each position (K,). Every position predicts one of the M tokens at least."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, rows: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        # Of the tokens that a position predicts, one stands for all in `slope`, so that where it is nearly certain
        # nothing large cancels.
        main = targets.new_zeros(len(hidden)).scatter_reduce(0, rows, targets, "amax")
        log_probs, slope = hidden.new_empty(len(rows), dtype=torch.float32), torch.empty_like(hidden)
        statistics = []
        for start in range(0, len(hidden), _ROWS):
            part = slice(start, start + _ROWS)
            logits = linear(hidden[part], weight).float()
            logs = logits.log_softmax(-1)
            here = torch.nonzero((rows >= start) & (rows < start + _ROWS))[:, 0]
            log_probs[here] = logs[rows[here] - start, targets[here]]
            shares = logs.exp()
            statistics.append(_statistics(logits, logs, shares))
            if ctx.needs_input_grad[0]:
                shares[torch.arange(len(shares)), main[part]] -= 1.0
                slope[part] = -(shares.to(weight.dtype) @ weight)
        ctx.save_for_backward(slope, weight, rows, targets, main)
        entropy, mean, best = (torch.cat(values) for values in zip(*statistics, strict=True))
        ctx.mark_non_differentiable(entropy, mean, best)
        return log_probs, entropy, mean, best

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
        slope, weight, rows, targets, main = ctx.saved_tensors
        sums = gradient.new_zeros(len(slope)).index_add_(0, rows, gradient)
        to_hidden = sums[:, None] * slope
        others = torch.nonzero(targets != main[rows])[:, 0]
        apart = weight[targets[others]].float() - weight[main[rows[others]]].float()
        to_hidden.index_add_(0, rows[others], gradient[others, None] * apart)
        return to_hidden.to(slope.dtype), None, None, None


def _statistics(logits: torch.Tensor, logs: torch.Tensor, shares: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Entropy, mean logit and likeliest token of each position, (K,), from its logits, log-probabilities and
    probabilities."""
    return -(shares * logs).sum(-1), logits.mean(-1), logits.argmax(-1)
