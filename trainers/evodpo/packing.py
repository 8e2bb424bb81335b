"""Packing: completions of prompts that begin alike as one sequence, with every common beginning in it once.

Preference pairs of program edits share long prompts: 400 tokens of program, 10 of edit, eight edits per
prompt, and the prompts for the edit sites of one parent are beginnings of one text. The stock collation runs
the prompt through the model once per completion, twice per pair. Here a *tree* is one sequence, the trie
of all prompts and completions (`agents.models.token_trie`), in which each token sees its own beginning (a block
mask on top of the causal one) at its own position. Every token then has the hidden state it would have in
a sequence of its own, and logits are computed only where a completion token is predicted.

This module is about tokens and indices only; who uses the log-probabilities is `token_values` and `kl`. Both
tokenise as generation does (`agents.models.tokens`): the prompt alone, by the tokenizer's own rule, for the model
continued it like that; the completion alone, up to the token that ends its last line and without an end-of-sequence
token, since it is one line or one function of a program and the text goes on behind it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate.utils import extract_model_from_parallel

from atlas_gym.agents.models.token_trie import families, token_trie
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.agents.models.tree_attention import tree_options

Tree = dict[str, torch.Tensor]
"""A packed sequence as the tensors a data loader can move between devices; see `pack_tree`."""

Branch = tuple[Sequence[int], Sequence[int]]
"""Tokens of a prompt and of one of its completions."""

_LARGEST = 1536
"""Tokens of a tree at most: attention over a tree costs the square of it."""

_SHARE = 0.25
"""What a branch has in common with another of its tree, at least, as a share of its own length."""


def encode_branch(tokenizer: Any, prompt: str, completion: str) -> Branch:
    """A prompt and what stands behind it, as tokens."""
    return encode_prompt(tokenizer, prompt), encode_completion(tokenizer, prompt, completion)


def pack_tree(branches: Sequence[Branch]) -> Tree:
    """One sequence out of prompts and completions, all non-empty token lists.

    With N distinct beginnings, and M completion tokens that are predicted from K ≤ M distinct positions:

    - ``input_ids``, ``position_ids`` (1, N); ``attention_mask`` (1, 1, N, N), True where a token (row) sees
    another;
    - ``positions`` (K,): positions whose logits are needed, ascending;
    - ``rows`` (M,): for each completion token, which of these K predicts it; ``targets`` (M,): its id;
    - ``owners`` (M,): which branch it belongs to. Completion tokens are in order of branches.
    """
    if not branches or not all(prompt and completion for prompt, completion in branches):
        raise ValueError("a prompt and each of its completions need at least one token")
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
class Forest:
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


def plant(branches: Sequence[Branch], limit: int = _LARGEST) -> Forest:
    """Trees of at most `limit` tokens out of branches; those that begin alike share one. What is longer than that by
    itself has one of its own."""
    distinct = list(dict.fromkeys((tuple(prompt), tuple(completion)) for prompt, completion in branches))
    trees: list[Tree] = []
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, int]] = {}
    for group in families(
        [prompt + completion for prompt, completion in distinct], share=_SHARE, limit=limit
    ):
        members = [distinct[index] for index in group]
        found.update({branch: (len(trees), row) for row, branch in enumerate(members)})
        trees.append(pack_tree(members))
    return Forest(trees, [found[tuple(prompt), tuple(completion)] for prompt, completion in branches])


def pair_branches(examples: Sequence[Mapping[str, Any]]) -> list[Branch]:
    """The chosen branch of every pair, then the rejected one of every pair; pairs have the token lists
    ``prompt_ids``, ``chosen_ids`` and ``rejected_ids``."""
    return [(pair["prompt_ids"], pair[side]) for side in ("chosen_ids", "rejected_ids") for pair in examples]


def tree_output(model: Any, tree: Tree) -> torch.Tensor:
    """What the model's head answers at the tree's K needed positions, (K, …) in its own dtype."""
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


def tree_logits(model: Any, tree: Tree) -> torch.Tensor:
    """Next-token logits at the tree's K needed positions, (K, vocabulary) in float32."""
    return tree_output(model, tree).float()


def to_device(tree: Tree, device: torch.device) -> Tree:
    """The tree with its tensors on `device`."""
    return {name: tensor.to(device) for name, tensor in tree.items()}


def batch_order(groups: Sequence[Sequence[int]], batch_size: int, rng: np.random.Generator) -> list[int]:
    """A random order of pairs in which each batch of `batch_size` consecutive pairs is of few groups.

    The pairs of each group are shuffled and cut into full batches; what is left over is lined up, largest
    first, and cut likewise; the full batches are then shuffled. An incomplete batch comes last.
    """
    full: list[list[int]] = []
    rest: list[list[int]] = []
    for group in groups:
        shuffled = [group[i] for i in rng.permutation(len(group))]
        cut = len(group) - len(group) % batch_size
        full += [shuffled[i : i + batch_size] for i in range(0, cut, batch_size)]
        rest.append(shuffled[cut:])
    shuffled_rest = [rest[i] for i in rng.permutation(len(rest))]
    line = [index for group in sorted(shuffled_rest, key=len, reverse=True) for index in group]
    cut = len(line) - len(line) % batch_size
    full += [line[i : i + batch_size] for i in range(0, cut, batch_size)]
    return [index for i in rng.permutation(len(full)) for index in full[i]] + line[cut:]
