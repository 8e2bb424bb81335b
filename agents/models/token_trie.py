"""Token sequences that begin alike, as one sequence in which every common beginning stands once.

The prompts for all edit sites of a program are beginnings of one text, and the completions of a prompt share it.
In a *trie* each distinct beginning is one node, so a language model that lets a node see its ancestors only, at
positions that count from the root, computes for every node what it would compute in a sequence of its own:

    tokens     p1 p2 p3 p4 p5 b1 b2 | a1 a2        the prompt p1 p2 p3 goes on as p4 p5 for another site
    positions   0  1  2  3  4  5  6 |  3  4

The longest sequence, the *trunk*, comes first, then the others in the order in which they leave it: what
neighbours see differs little, which attention makes use of (`agents.models.tree_attention`).

Sequences are compared by their tokens, never by their text: where the tokenizer splits a beginning otherwise than
the longer text, the branch is simply one token earlier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import torch


@dataclass(frozen=True)
class TokenTrie:
    """A trie of N nodes, ancestors before descendants, the longest sequence in front."""

    tokens: list[int]  # (N,) token of each node
    depths: list[int]  # (N,) its position in the sequences through it
    paths: list[list[int]]  # for each sequence, in the order given, the nodes from the root to its end

    def visible(self) -> torch.Tensor:
        """(N, N) bool, True where a node (row) sees another: itself and its ancestors."""
        sees = np.zeros((len(self.tokens), len(self.tokens)), dtype=bool)
        done = np.zeros(len(self.tokens), dtype=bool)
        for path in self.paths:
            nodes = np.array(path, dtype=int)
            places = np.flatnonzero(~done[nodes])
            sees[np.ix_(nodes[places], nodes)] = places[:, None] >= np.arange(len(nodes))
            done[nodes] = True
        return torch.from_numpy(sees)


def token_trie(sequences: Sequence[Sequence[int]]) -> TokenTrie:
    """The trie of these sequences, one or more."""
    longest = max(sequences, key=len)
    trunk = list(range(len(longest)))
    tokens, depths = list(longest), list(trunk)
    paths: list[list[int]] = [[] for _ in sequences]
    before, path = longest, trunk
    shared = [common_prefix(longest, sequence) for sequence in sequences]
    for index in sorted(range(len(sequences)), key=lambda index: (shared[index], list(sequences[index]))):
        sequence = sequences[index]
        # Of those that leave the trunk where this one does, none shares more with it than the one just before it;
        # with all others it shares nothing but the trunk.
        common = common_prefix(before, sequence)
        stem = path[:common] if common > shared[index] else trunk[: shared[index]]
        path = stem + list(range(len(tokens), len(tokens) + len(sequence) - len(stem)))
        tokens += sequence[len(stem) :]
        depths += range(len(stem), len(sequence))
        before, paths[index] = sequence, path
    return TokenTrie(tokens, depths, paths)


def families(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    """Indices of the sequences, none of them empty, that are worth one trie, in sorted order of their tokens: at least
    half of each is common with the one before it."""
    groups: list[list[int]] = []
    for index in sorted(range(len(sequences)), key=lambda index: list(sequences[index])):
        sequence = sequences[index]
        if not groups or 2 * common_prefix(sequences[groups[-1][-1]], sequence) < len(sequence):
            groups.append([])
        groups[-1].append(index)
    return groups


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of tokens with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
