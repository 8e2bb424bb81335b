"""Packing: completions of prompts that begin alike as one sequence, with every common beginning in it once.

Preference pairs of program edits share long prompts: 400 tokens of program, 10 of edit, eight edits per prompt, and the
prompts for the edit sites of one parent are beginnings of one text. The stock collation runs the prompt through the
model once per completion, twice per pair. Here a *tree* is one sequence, the trie of all prompts and completions
(`agents.models.token_trie`), in which each token sees its own beginning (a block mask on top of the causal one) at its
own position. Every token then has the hidden state it would have in a sequence of its own.

Logits over a vocabulary of 49,000 are most of what a tree would hold in memory, several times over: as the model's own,
in float32, as log-probabilities and as their gradient. So the model stops before its head, and the head is applied to a
few positions at a time, where a completion token is predicted. The gradient of log π(y) with respect to the hidden
state before the head,

    W_y − Σ_v π(v) W_v          (W_v: the head's row of token v),

is as wide as the hidden state and does not depend on what the loss makes of log π, so it is computed on the spot. A
model that does more to its logits than a frozen matrix product is asked for all its logits instead.

Prompts and completions are tokenised as generation does (`agents.models.tokens`): the prompt alone, by the tokenizer's
own rule, for the model continued it like that; the completion alone, up to the token that ends its last line and
without an end-of-sequence token, since it is one line or one function of a program and the text goes on behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from accelerate.utils import extract_model_from_parallel
from torch import distributed, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from atlas_gym.agents.models.token_trie import families, token_trie
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.agents.models.tree_attention import tree_options

T = TypeVar("T")

Tree = dict[str, torch.Tensor]
"""A packed sequence as the tensors a data loader can move between devices; see `pack_tree`."""

Branch = tuple[Sequence[int], Sequence[int]]
"""Tokens of a prompt and of one of its completions."""

_LARGEST = 1536
"""Tokens of a tree at most: attention over a tree costs the square of it."""
_SHARE = 0.25
"""What a branch has in common with another of its tree, at least, as a share of its own length."""
_ROWS = 64
"""Positions whose distributions over the vocabulary are held at once (float32: 13 MB each at 49k tokens)."""
_TRANSFORMED = (
    "final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling",
)  # fmt: skip
"""What configurations call it if logits are more than the head's product (the list of TRL's `add_fused_lm_head`)."""


def encode_branch(tokenizer: Any, prompt: str, completion: str) -> Branch:
    """A prompt and what stands behind it, as tokens."""
    return encode_prompt(tokenizer, prompt), encode_completion(tokenizer, prompt, completion)


def pack_tree(branches: Sequence[Branch]) -> Tree:
    """One sequence out of prompts and completions, all non-empty token lists.

    With N distinct beginnings, and M completion tokens that are predicted from K ≤ M distinct positions:

    - ``input_ids``, ``position_ids`` (1, N); ``attention_mask`` (1, 1, N, N), True where a token (row) sees another;
    - ``positions`` (K,): positions whose logits are needed, ascending;
    - ``rows`` (M,): for each completion token, which of these K predicts it; ``targets`` (M,): its id;
    - ``owners`` (M,): which branch it belongs to. Completion tokens are in order of branches.
    """
    trie = token_trie([[*prompt, *completion] for prompt, completion in branches])
    # Token j of a completion is predicted at its token j - 1, and the first one at the end of the prompt.
    predictors = [path[len(prompt) - 1 : -1] for path, (prompt, _) in zip(trie.paths, branches, strict=True)]
    kept, rows = np.unique(np.concatenate(predictors), return_inverse=True)
    return {
        "input_ids": torch.tensor([trie.tokens]),
        "position_ids": torch.tensor([trie.depths]),
        "attention_mask": trie.visible()[None, None],
        "positions": torch.from_numpy(kept),
        "rows": torch.from_numpy(rows),
        "targets": torch.tensor([token for _, completion in branches for token in completion]),
        "owners": torch.repeat_interleave(torch.tensor([len(completion) for _, completion in branches])),
    }


@dataclass(frozen=True)
class Packing:
    """Branches as trees."""

    trees: list[Tree]
    """Each distinct branch is in one of them, once."""
    places: list[tuple[int, int]]
    """(tree, branch in it) of every branch, in the order given."""

    def sources(self) -> list[torch.Tensor]:
        """For every branch, in the order given, where its completion's tokens are among those of all trees, these one
        after another."""
        first = np.cumsum([0, *(len(tree["targets"]) for tree in self.trees)]).tolist()
        return [
            torch.nonzero(self.trees[tree]["owners"] == branch)[:, 0] + first[tree]
            for tree, branch in self.places
        ]


def pack(branches: Sequence[Branch], limit: int = _LARGEST) -> Packing:
    """Trees of at most `limit` tokens out of branches; those that begin alike share one. What is longer than that by
    itself has one of its own."""
    distinct = list(dict.fromkeys((tuple(prompt), tuple(completion)) for prompt, completion in branches))
    whole = [prompt + completion for prompt, completion in distinct]
    trees: list[Tree] = []
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, int]] = {}
    for group in families(whole, share=_SHARE, limit=limit):
        found |= {distinct[index]: (len(trees), row) for row, index in enumerate(group)}
        trees.append(pack_tree([distinct[index] for index in group]))
    return Packing(trees, [found[tuple(prompt), tuple(completion)] for prompt, completion in branches])


def to_device(tree: Tree, device: torch.device) -> Tree:
    """The tree with its tensors on `device`."""
    return {name: tensor.to(device) for name, tensor in tree.items()}


def tree_logits(model: Any, tree: Tree) -> torch.Tensor:
    """Next-token logits at the tree's K needed positions, (K, vocabulary) in float32."""
    return _head_output(model, tree).float()


def _head_output(model: Any, tree: Tree) -> torch.Tensor:
    """The output of the model's head at the tree's K needed positions, (K, …) in its own dtype."""
    mask = tree["attention_mask"]
    output = model(
        input_ids=tree["input_ids"],
        position_ids=tree["position_ids"],
        attention_mask=mask,
        logits_to_keep=tree["positions"],
        use_cache=False,
        **tree_options(extract_model_from_parallel(model), mask),
    )
    return output.logits[0]


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
    whole = extract_model_from_parallel(model)
    head, config = whole.get_output_embeddings(), whole.config.get_text_config()
    transformed = any(getattr(config, name, None) is not None for name in _TRANSFORMED)
    if transformed or type(head) is not nn.Linear or head.bias is not None or head.weight.requires_grad:
        logits = tree_logits(model, tree)
        logs = logits.log_softmax(-1)
        log_probs = logs[rows, targets]
        entropy, mean, best = _statistics(logits.detach(), logs.detach(), logs.detach().exp())
    else:
        patched = vars(head).get("forward")
        head.forward = lambda hidden: hidden
        try:
            hidden = _head_output(model, tree)
        finally:
            del head.forward
            if patched is not None:
                head.forward = patched
        weight = head.weight
        if torch.is_autocast_enabled(weight.device.type):  # once, not once for every few positions
            weight = weight.to(torch.get_autocast_dtype(weight.device.type))
        log_probs, entropy, mean, best = _Head.apply(hidden.to(weight.dtype), weight, rows, targets)
    return TokenValues(log_probs, entropy[rows], mean[rows], best[rows] == targets)


class _Head(torch.autograd.Function):
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
        difference = weight[targets[others]].float() - weight[main[rows[others]]].float()
        to_hidden.index_add_(0, rows[others], gradient[others, None] * difference)
        return to_hidden.to(slope.dtype), None, None, None


def _statistics(logits: torch.Tensor, logs: torch.Tensor, shares: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Entropy, mean logit and likeliest token of each position, (K,), from its logits, log-probabilities and
    probabilities."""
    return -(shares * logs).sum(-1), logits.mean(-1), logits.argmax(-1)


def log_likelihoods(model: Any, branches: Sequence[Branch], device: torch.device) -> list[float]:
    """log π(y|x) in nats of each branch under the model's active adapter, the completion's end included; several
    processes take trees in turn."""
    packing = pack(branches)
    found: dict[tuple[int, int], float] = {}
    for index in share(range(len(packing.trees))):
        tree = to_device(packing.trees[index], device)
        values, owners = token_values(model, tree).log_probs, tree["owners"]
        sums = values.new_zeros(int(owners[-1]) + 1).index_add_(0, owners, values).tolist()
        found |= {(index, branch): value for branch, value in enumerate(sums)}
    return totals([found.get(place, 0.0) for place in packing.places], device)


def processes() -> tuple[int, int]:
    """This process's number and how many there are; 0 and 1 without `torch.distributed`."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def share(items: Sequence[T]) -> Sequence[T]:
    """What of the items is this process's; the processes together have all."""
    rank, size = processes()
    return items[rank::size]


def totals(values: Sequence[float], device: torch.device) -> list[float]:
    """Sum of each value over the processes, the same everywhere. `device`: where the backend can add."""
    if processes()[1] == 1:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(summed)
    return list(summed.tolist())
