"""One batch of decoding: a sequence for all prompts that begin alike, and in it the samples of each (see
:mod:`agents.engines.hf_transformers`)."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.sampling import Sample, deviate, draw, truncate
from atlas_gym.agents.models.token_trie import token_trie
from atlas_gym.agents.models.tokens import Vocabulary
from atlas_gym.agents.models.tree_attention import tree_options

_ROOM = 0.5
"""How much larger a tensor is than what it is begun with, as a share of that."""


class RoomyLayer(DynamicLayer):
    """A layer's keys and values, each the front of a tensor with room for the next steps: transformers' own cache
    appends by copying all it has, at every token; here that happens once in so many steps. The batch may lose
    sequences, as decoding does (`batch_select_indices`); it is not to be reordered or repeated."""

    _rooms: tuple[torch.Tensor, torch.Tensor] | None = None
    """Those tensors; None where there is no room behind what is kept."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append (batch, heads, columns, width) each; returns all there is."""
        length = self.get_seq_length()
        end = length + key_states.shape[-2]
        if self._rooms is None or end > self._rooms[0].shape[-2]:
            self._rooms = _room(self.keys, key_states, end), _room(self.values, value_states, end)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, values = self._rooms
        keys[..., length:end, :], values[..., length:end, :] = key_states, value_states
        self.keys, self.values = keys[..., :end, :], values[..., :end, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these sequences only."""
        super().batch_select_indices(indices)
        self._rooms = None


def _room(kept: torch.Tensor | None, fresh: torch.Tensor, columns: int) -> torch.Tensor:
    """A tensor for so many columns and more, what is kept in front."""
    batch, heads, _, width = fresh.shape
    room = fresh.new_empty(batch, heads, columns + math.ceil(columns * _ROOM), width)
    if kept is not None and kept.numel():
        room[..., : kept.shape[-2], :] = kept
    return room


class PromptTrie:
    """The prompts of one sequence, and the texts that their samples must not repeat, as one trie.

    The nodes whose logits are wanted stand last, so that those of many sequences end in the same columns.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        requests = {sample.request: sample for sample in samples}
        trie = token_trie([sample.prompt + (sample.parent or []) for sample in requests.values()])
        ends = {request: len(sample.prompt) - 1 for request, sample in requests.items()}
        paths = dict(zip(requests, trie.paths, strict=True))
        wanted = {node for request, path in paths.items() for node in path[ends[request] :]}
        order = sorted(range(len(trie.tokens)), key=lambda node: (node in wanted, node))
        place = {node: index for index, node in enumerate(order)}
        self.paths = {request: [place[node] for node in path] for request, path in paths.items()}
        """For each request the places of its prompt's and its parent's tokens."""
        self.wanted = len(wanted)
        """How many of the last tokens predict something."""
        self.tokens = torch.tensor([trie.tokens[node] for node in order])
        self.positions = torch.tensor([trie.depths[node] for node in order])
        rows = torch.tensor(order)
        self.visible = trie.visible()[rows][:, rows]
        """(N, N) bool, True where a token (row) sees another."""

    def __len__(self) -> int:
        return len(self.tokens)


class SampleBatch:
    """Decodes several requests together, one token per active sample and step."""

    def __init__(
        self, model: Any, vocabulary: Vocabulary, sampling: Sampling, groups: Sequence[list[Sample]]
    ):
        """``groups`` holds the samples of each sequence, which may be of several requests; the same tokens are banned
        for all of them."""
        self.model = model
        self.vocabulary = vocabulary
        self.sampling = sampling
        self.groups = [list(group) for group in groups]
        banned = vocabulary.banned(sampling.banned(groups[0][0].stop))
        self._banned = banned.to(model.device)
        self._cache = Cache(layer_class_to_replicate=RoomyLayer)
        self._tries = [PromptTrie(group) for group in groups]
        self._sample_count = max(len(group) for group in groups)
        # (sequence, sample, column of the cache): what each sample may look at.
        self._visible = torch.empty(0)
        self._row_of = {sample: row for group in groups for row, sample in enumerate(group)}

    @property
    def active(self) -> list[Sample]:
        """Samples that have not finished."""
        return list(chain.from_iterable(self.groups))

    def retire(self, sample: Sample) -> None:
        """Take a finished sample out of the batch."""
        next(group for group in self.groups if sample in group).remove(sample)

    def prefill(self) -> list[Sample]:
        """Read every beginning once and draw each sample's first token; returns the samples that got one."""
        width = max(map(len, self._tries))
        tokens = torch.zeros(len(self._tries), width, dtype=torch.long)
        positions = torch.zeros_like(tokens)
        mask = torch.eye(width, dtype=torch.bool).repeat(len(self._tries), 1, 1)  # padding sees itself
        for row, trie in enumerate(self._tries):
            span = slice(width - len(trie), width)
            tokens[row, span], positions[row, span] = trie.tokens, trie.positions
            mask[row, span, span] = trie.visible
        mask = mask.to(self.model.device)
        wanted = max(trie.wanted for trie in self._tries)
        logits = self._forward(
            tokens, positions, mask, logits_to_keep=wanted, **tree_options(self.model, mask[:, None])
        )
        self._visible = torch.zeros(len(self.groups), self._sample_count, width, dtype=torch.bool)
        for index, (group, trie) in enumerate(zip(self.groups, self._tries, strict=True)):
            first = width - len(trie)
            for request in dict.fromkeys(sample.request for sample in group):
                samples = [sample for sample in group if sample.request == request]
                path = torch.tensor(trie.paths[request]) + first
                rows = logits[index, path[len(samples[0].prompt) - 1 :] - (width - wanted)]
                self._draw_first(samples, rows.masked_fill(self._banned, float("-inf")))
                for sample in samples:
                    seen = path[: len(sample.prompt) + sample.followed]
                    self._visible[index, self._row_of[sample], seen] = True
        self._visible = self._visible.to(self.model.device)
        return self.active

    def step(self) -> list[Sample]:
        """Feed each active sample's last token and draw its next; returns the active samples."""
        self._drop_finished_sequences()
        samples = self.active
        width = max(len(group) for group in self.groups)
        rows = torch.zeros(len(self.groups), width, dtype=torch.long)
        tokens, positions = torch.zeros_like(rows), torch.zeros_like(rows)
        fresh = torch.zeros(len(self.groups), self._sample_count, width, dtype=torch.bool)
        where = [(index, place) for index, group in enumerate(self.groups) for place in range(len(group))]
        for (index, place), sample in zip(where, samples, strict=True):
            row = self._row_of[sample]
            rows[index, place] = row
            tokens[index, place] = sample.drawn[-1]
            positions[index, place] = sample.position
            fresh[index, row, place] = True
        self._visible = torch.cat([self._visible, fresh.to(self.model.device)], dim=-1)
        columns = rows.to(self.model.device).unsqueeze(-1).expand(-1, -1, self._visible.shape[-1])
        logits = self._forward(tokens, positions, self._visible.gather(1, columns))
        indices, places = zip(*where, strict=True)
        self._draw(samples, logits[list(indices), list(places)].masked_fill(self._banned, float("-inf")))
        return samples

    def _forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """Logits at these tokens (B, T), each of which sees the columns of the cache that `mask` (B, T, columns)
        says."""
        device = self.model.device
        mask = mask.to(device).unsqueeze(1)
        if self.model.config._attn_implementation == "eager":  # it adds its mask, SDPA selects by it
            mask = torch.zeros_like(mask, dtype=self.model.dtype).masked_fill(~mask, float("-inf"))
        logits: torch.Tensor = self.model(
            input_ids=tokens.to(device),
            attention_mask=mask,
            position_ids=positions.to(device),
            past_key_values=self._cache,
            use_cache=True,
            **options,
        ).logits
        return logits

    def _drop_finished_sequences(self) -> None:
        keep = [index for index, group in enumerate(self.groups) if group]
        if len(keep) == len(self.groups):
            return
        self._cache.batch_select_indices(torch.tensor(keep, device=self.model.device))
        self._visible = self._visible[keep]
        self.groups = [self.groups[index] for index in keep]

    def _draw_first(self, group: list[Sample], logits: torch.Tensor) -> None:
        """First tokens of one request's samples from the logits (J + 1, vocabulary) along the parent's line."""
        if group[0].parent is None:
            self._draw(group, logits[:1].expand(len(group), -1))
        else:
            deviate(group, logits, self.vocabulary.line_end, self.sampling)

    def _draw(self, samples: Sequence[Sample], logits: torch.Tensor) -> None:
        weights, tokens = truncate(logits, self.sampling.temperature, self.sampling.top_k)
        uniforms = torch.tensor([sample.uniform for sample in samples], dtype=torch.float64)
        chosen = tokens.gather(1, draw(weights, uniforms).unsqueeze(-1)).squeeze(-1)
        for sample, token in zip(samples, chosen.tolist(), strict=True):
            sample.drawn.append(token)
