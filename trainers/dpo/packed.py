"""Packing: many completions in few passes of the model, as rows of tries.

Preference pairs of program edits share long prompts: 400 tokens of program, 10 of edit, eight edits per prompt. A row
is one sequence, of tries one after another, in which each token sees its own beginning at its own position, and each
common beginning is computed once. A CPU, whose time goes by tokens, gets each row by itself and no longer than it is.
A GPU takes as long to start a pass over one small model as to compute some thousand tokens: it gets many rows at once,
all of one width, so that few shapes occur, which a CUDA graph asks for.

Prompts and completions are tokenised as generation does (`agents.models.tokens`), without an end-of-sequence token,
since the text goes on behind a completion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from atlas_gym.agents.models.token_trie import common_prefix
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt

Branch = tuple[Sequence[int], Sequence[int]]
"""Tokens of a prompt and of one of its completions."""

_LARGEST = 1536
"""Tokens of a row at most."""
_LENGTHS = 64
"""Rows of a GPU are as long as a multiple of this."""
_INFERRED = 2**17
"""Tokens of a pass in inference at most: with more nothing is gained."""
_TRAINING, _INFERENCE = 32, 8
"""Numbers as wide as the hidden state that a token holds in each layer at most, in training (all layers at once: 25
were measured, with adapters on all linear layers) and in inference (one layer's)."""


def encode_branch(tokenizer: Any, prompt: str, completion: str) -> Branch:
    """A prompt and what stands behind it, as tokens."""
    return encode_prompt(tokenizer, prompt), encode_completion(tokenizer, prompt, completion)


@dataclass(frozen=True)
class Pass:
    """What goes through the model at once: B sequences of T tokens, with M completion tokens that are predicted.
    Tensors are as `to` puts them."""

    # arguments of the model: ``input_ids`` and ``position_ids`` (B, T), and ``ends`` (B, T): a token is seen from
    # itself up to its end
    inputs: dict[str, torch.Tensor]
    places: torch.Tensor  # (M,) where each completion token is predicted, of B · T
    targets: torch.Tensor  # (M,) its id
    owners: torch.Tensor  # (M,) which branch it belongs to, of `lengths`; to none if it is but padding
    lengths: tuple[int, ...]  # completion tokens of each branch

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


class Line:
    """Branches in the order in which rows are filled: that of their tokens, so that what begins alike is together."""

    def __init__(self, branches: Sequence[Branch]) -> None:
        whole = [[*prompt, *completion] for prompt, completion in branches]
        self.branches = branches
        self.order = sorted(range(len(whole)), key=whole.__getitem__)  # indices of the branches
        # how many tokens each has in common with the one before it in this order
        self.common = [0, *(common_prefix(whole[one], whole[other]) for one, other in pairwise(self.order))]

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


def width(lines: Sequence[Line], limit: int = _LARGEST) -> int:
    """Of rows that take the fewest tokens if each of these lines has as many as the one that needs most; at most
    `limit`, unless a branch is longer."""
    longest = max(sum(map(len, branch)) for each in lines for branch in each.branches)
    wide = range(
        -(-longest // _LENGTHS) * _LENGTHS, max(longest + _LENGTHS, min(limit, _LARGEST) + 1), _LENGTHS
    )
    return min(wide, key=lambda width: (max(len(each.rows(width)) for each in lines) * width, width))


def rows(
    own: Line, groups: Sequence[Sequence[int]], width: int = 0, at_least: tuple[int, int] = (0, 0)
) -> Pass:
    """Rows of tries out of the branches with these indices, by row, all of this width or of that of the longest.
    `at_least` so many rows and completion tokens: what is added belongs to no branch."""
    filled: list[tuple[list[int], list[int], list[int]]] = []  # ids, positions and ends of each row
    paths: dict[int, tuple[int, list[int]]] = {}  # of each branch, its row and the places of its tokens there
    for number, group in enumerate(groups):
        ids, positions, ends = row = ([], [], [])  # type: tuple[list[int], list[int], list[int]]
        path: list[int] = []
        before: list[int] = []
        for index in group:
            sequence = [*own.branches[index][0], *own.branches[index][1]]
            common = common_prefix(before, sequence)
            for place in path[common:]:
                ends[place] = len(ids)
            path = [*path[:common], *range(len(ids), len(ids) + len(sequence) - common)]
            ids += sequence[common:]
            positions += range(common, len(sequence))
            ends += [0] * (len(sequence) - common)
            before, paths[index] = sequence, (number, path)
        for place in path:
            ends[place] = len(ids)
        filled.append(row)
    wide = max(width, *(len(ids) for ids, *_ in filled)) if filled else width
    inputs = np.zeros((3, max(len(filled), at_least[0]), wide), dtype=np.int64)
    inputs[2] = np.arange(1, wide + 1)  # what is not used sees itself, lest it be NaN
    for number, row in enumerate(filled):
        inputs[:, number, : len(row[0])] = row
    chosen = [(own.branches[index], *paths[index]) for index in sorted(paths)]
    # Token j of a completion is predicted at its token j - 1, and the first one at the end of the prompt.
    places = [
        number * wide + place for (prompt, _), number, path in chosen for place in path[len(prompt) - 1 : -1]
    ]
    targets = [token for (_, completion), *_ in chosen for token in completion]
    lengths = tuple(len(completion) for (_, completion), *_ in chosen)
    owners = np.repeat(range(len(lengths)), lengths)
    more = max(0, at_least[1] - len(targets))
    return Pass(
        dict(zip(("input_ids", "position_ids", "ends"), torch.from_numpy(inputs), strict=True)),
        torch.tensor([*places, *[0] * more]),
        torch.tensor([*targets, *[0] * more]),
        torch.from_numpy(np.pad(owners, (0, more), constant_values=len(lengths))),
        lengths,
    )


@dataclass(frozen=True)
class Packing:
    """Branches in passes."""

    passes: list[Pass]  # each distinct branch is in one of them, once
    # of every branch in the order given: its number among those of all passes, these one after another
    places: list[int]


def pack(branches: Sequence[Branch], limit: int, even: bool) -> Packing:
    """Passes of at most `limit` tokens out of branches, of rows of one width if they are to be `even`, else of one row
    each. A branch longer than that has a row of its own."""
    distinct = list(dict.fromkeys((tuple(prompt), tuple(completion)) for prompt, completion in branches))
    own = Line(distinct)
    wide = width([own], limit) if even else limit
    filled, at_once = own.rows(wide), max(1, limit // wide)
    parts = [filled[first : first + at_once] for first in range(0, len(filled), at_once)]
    passes = [rows(own, part, wide if even else 0) for part in parts]
    order = [index for part in parts for index in sorted(index for row in part for index in row)]
    number = {distinct[index]: n for n, index in enumerate(order)}
    return Packing(passes, [number[tuple(prompt), tuple(completion)] for prompt, completion in branches])


def wants_even(device: torch.device) -> bool:
    """Whether rows are to be even there; the module's description says why."""
    return device.type != "cpu"


def room(model: Any, training: bool, checkpointed: bool = False) -> int:
    """Tokens of a pass that the model's device has memory for, at most; on a CPU, how many are worth one."""
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
