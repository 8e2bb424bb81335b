"""Packing: the completions of one prompt as one sequence, with the prompt in it once.

Preference pairs of program edits share long prompts: 400 tokens of program, 10 of edit, eight edits per
prompt. The stock collation runs the prompt through the model once per completion, twice per pair. Here a
*tree* is one sequence,

    tokens     p1 p2 p3 | a1 a2 | b1 b2 b3
    positions   0  1  2 |  3  4 |  3  4  5

in which each completion sees the prompt and itself (a block mask on top of the causal one) and its
positions continue the prompt's. Every token then has the hidden state it would have in a sequence of its
own, and logits are computed only where a completion token is predicted; the prompt's last position predicts
the first token of all completions.

This module is about tokens and indices only; who uses the log-probabilities is `packed_dpo` and `kl`. Both
tokenise as generation does (`agents.models.tokens`): the prompt alone, by the tokenizer's own rule, for the model
continued it like that; the completion alone and without an end-of-sequence token, since it is one line or one
function of a program and the text goes on behind it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trainers.data.pairs import group_by_prompt

Tree = dict[str, torch.Tensor]
"""A packed sequence as the tensors a data loader can move between devices; see `pack_tree`."""


def pack_tree(prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> Tree:
    """One sequence out of a prompt and its completions, all non-empty token lists.

    With N tokens in all, of which M in completions, predicted from K ≤ M distinct positions:

    - ``input_ids``, ``position_ids`` (1, N); ``attention_mask`` (1, 1, N, N), True where a token (row) sees
    another;
    - ``positions`` (K,): positions whose logits are needed, ascending;
    - ``rows`` (M,): for each completion token, which of these K predicts it; ``targets`` (M,): its id;
    - ``owners`` (M,): which completion it belongs to. Completion tokens are in order of completions.
    """
    if not prompt or not completions or not all(completions):
        raise ValueError("a prompt and each of its completions need at least one token")
    n, lengths = len(prompt), [len(completion) for completion in completions]
    starts = n + np.concatenate([[0], np.cumsum(lengths)[:-1]])
    positions = [list(range(n, n + length)) for length in lengths]
    # Token j of a completion is predicted at its token j - 1, and the first one at the end of the prompt.
    predictors = [
        [n - 1, *range(start, start + length - 1)] for start, length in zip(starts, lengths, strict=True)
    ]
    kept, rows = np.unique(np.concatenate(predictors), return_inverse=True)
    tokens = [token for completion in completions for token in completion]
    return {
        "input_ids": torch.tensor([[*prompt, *tokens]]),
        "position_ids": torch.tensor([[*range(n), *(p for block in positions for p in block)]]),
        "attention_mask": _tree_mask(n, lengths)[None, None],
        "positions": torch.from_numpy(kept),
        "rows": torch.from_numpy(rows),
        "targets": torch.tensor(tokens),
        "owners": torch.repeat_interleave(torch.tensor(lengths)),
    }


@dataclass(frozen=True)
class Forest:
    """Preference pairs as trees."""

    trees: list[Tree]
    """One per distinct prompt, with each distinct completion once."""
    rows: list[tuple[int, int]]
    """(tree, completion in it) of the chosen completion of every pair, then of the rejected one of every
    pair."""


def plant(examples: Sequence[Mapping[str, Any]]) -> Forest:
    """Trees out of pairs with the token lists ``prompt_ids``, ``chosen_ids`` and ``rejected_ids``."""
    prompts: dict[tuple[int, ...], int] = {}
    completions: list[dict[tuple[int, ...], int]] = []
    rows = []
    for side in ("chosen_ids", "rejected_ids"):
        for example in examples:
            tree = prompts.setdefault(tuple(example["prompt_ids"]), len(prompts))
            if tree == len(completions):
                completions.append({})
            known = completions[tree]
            rows.append((tree, known.setdefault(tuple(example[side]), len(known))))
    return Forest([pack_tree(p, list(c)) for p, c in zip(prompts, completions, strict=True)], rows)


def _tree_mask(prompt_length: int, lengths: Sequence[int]) -> torch.Tensor:
    """Causal, and blind between completions. (N, N) bool."""
    block = torch.repeat_interleave(torch.tensor([prompt_length, *lengths]))
    same_block = block[:, None] == block[None, :]
    sees_prompt = (block == 0)[None, :]
    return (same_block | sees_prompt).tril()


def tree_logits(model: Any, tree: Tree) -> torch.Tensor:
    """Next-token logits at the tree's K needed positions, (K, vocabulary) in float32."""
    output = model(
        input_ids=tree["input_ids"],
        position_ids=tree["position_ids"],
        attention_mask=tree["attention_mask"],
        logits_to_keep=tree["positions"],
        use_cache=False,
    )
    logits: torch.Tensor = output.logits[0].float()
    return logits


def token_log_probs(logits: torch.Tensor, tree: Tree) -> torch.Tensor:
    """log π of each completion token, (M,), from the logits of `tree_logits`."""
    rows, targets = tree["rows"], tree["targets"]
    return logits[rows, targets] - logits.logsumexp(-1)[rows]


def to_device(tree: Tree, device: torch.device) -> Tree:
    """The tree with its tensors on `device`."""
    return {name: tensor.to(device) for name, tensor in tree.items()}


def batch_order(prompts: Sequence[Hashable], batch_size: int, rng: np.random.Generator) -> list[int]:
    """A random order of pairs in which each batch of `batch_size` consecutive pairs has few distinct prompts.

    Each prompt's pairs are shuffled and cut into full batches; what is left over is lined up, largest
    first, and cut likewise; the full batches are then shuffled. An incomplete batch comes last.
    """
    full: list[list[int]] = []
    rest: list[list[int]] = []
    for group in group_by_prompt(prompts):
        shuffled = [group[i] for i in rng.permutation(len(group))]
        cut = len(group) - len(group) % batch_size
        full += [shuffled[i : i + batch_size] for i in range(0, cut, batch_size)]
        rest.append(shuffled[cut:])
    shuffled_rest = [rest[i] for i in rng.permutation(len(rest))]
    line = [index for group in sorted(shuffled_rest, key=len, reverse=True) for index in group]
    cut = len(line) - len(line) % batch_size
    full += [line[i : i + batch_size] for i in range(0, cut, batch_size)]
    return [index for i in rng.permutation(len(full)) for index in full[i]] + line[cut:]
