"""One batch of decoding: families of requests whose prompts begin alike, and in each the samples of its requests.

*Reading.* The prompts of a family, and the texts that their samples must not repeat, are read as one trie, in which
each common beginning stands once. Their logits decide the first tokens.

*Writing.* A step is a function of fixed shapes: it feeds the last token of each row, draws the next on the device and
writes it into `Slots`. On a GPU it is captured once per shape as a CUDA graph and replayed, and samples that have ended
go on unread until somebody looks. On a CPU the same function runs as it is, over no more columns than are in use.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from atlas_gym.agents.engines.attention import Attend, attend_to_both, bias
from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.sampling import Sample, draw, first_tokens, truncate
from atlas_gym.agents.engines.slots import Shape, Shelf, Slots
from atlas_gym.agents.models.token_trie import token_trie
from atlas_gym.agents.models.tokens import Vocabulary
from atlas_gym.agents.models.tree_attention import attend_in_trees, tree_blocks

_LOOK = 16
"""Steps on a GPU before what was drawn is looked at: most lines end within so many."""
_READ = 2**14
"""Tokens that are read at a time, if not those of one family."""
_COLUMNS = 256
"""The columns of prompts are a multiple of this on a GPU."""
_LOGITS = 2**28
"""Logits behind prompts and along texts to be avoided that are held at a time, if not those of one family."""
_WORTH = 64
"""So many tokens must be left for a graph of fewer rows to be captured; one that there is is used in any case."""


class PromptTrie:
    """The prompts of one family, and the texts that their samples must not repeat, as one trie.

    The nodes whose logits are wanted stand last, so that those of many families end in the same columns.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        # a sample of each request
        self.requests = list({sample.request: sample for sample in samples}.values())
        trie = token_trie([sample.prompt + (sample.parent or []) for sample in self.requests])
        paths = list(zip(self.requests, trie.paths, strict=True))
        wanted = {node for sample, path in paths for node in path[len(sample.prompt) - 1 :]}
        order = sorted(range(len(trie.tokens)), key=lambda node: (node in wanted, node))
        place = {node: index for index, node in enumerate(order)}
        # for each request the places of its prompt's and its parent's tokens
        self.paths = [[place[node] for node in path] for path in trie.paths]
        self.wanted = len(wanted)  # how many of the last tokens predict something
        self.tokens = torch.tensor([trie.tokens[node] for node in order])
        self.positions = torch.tensor([trie.depths[node] for node in order])
        rows = torch.tensor(order)
        self.visible = trie.visible()[rows][:, rows]  # (N, N) bool, True where a token (row) sees another


class Batch:
    """Decodes the samples of several families together."""

    def __init__(
        self,
        model: Any,
        vocabulary: Vocabulary,
        sampling: Sampling,
        families: Sequence[list[Sample]],
        shelf: Shelf | None = None,
    ) -> None:
        """The same tokens are banned for all samples, whose limits are alike. With a `shelf` there are few shapes and
        rare looks."""
        self.model, self.sampling, self.families = model, sampling, families
        self._shelf, self._fixed = shelf, shelf is not None
        self.device: torch.device = model.device
        self._banned = vocabulary.banned(sampling.banned(families[0][0].stop)).to(self.device)
        self._line_end = vocabulary.line_end.to(self.device)
        # Lest transformers builds one.
        self._mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self.device)
        self._rows = [list(family) for family in families]
        self._ended: set[Sample] = set()
        self._drawn = 0

    def advance(self) -> Iterator[list[tuple[Sample, list[int]]]]:
        """Draw tokens, and yield what further ones each sample has got, until all are retired or at their limit."""
        self._read()
        self._drawn, seen, limit = 1, 0, self.slots.shape[-1]
        while True:
            drawn = self.slots.drawn[:, :, seen : self._drawn].tolist()
            yield [
                pair
                for row, samples in zip(drawn, self._rows, strict=False)
                for pair in zip(samples, row, strict=False)
                if pair[0] not in self._ended
            ]
            seen = self._drawn
            if seen == limit or len(self._ended) == sum(map(len, self.families)):
                return
            self._shrink()
            for _ in range(min(_LOOK if self._fixed else 1, limit - seen)):
                self._step()

    def retire(self, sample: Sample) -> None:
        """Write no more of a sample."""
        self._ended.add(sample)

    def _slots(self, shape: Shape) -> Slots:
        if self._shelf is None:
            return Slots(shape, len(self._banned), self.device, False)
        return self._shelf.take(shape, len(self._banned), self.device)

    def _fitting(self, shape: Shape) -> Shape:
        """The shape of the slots for so many families, rows and columns."""
        families, rows, columns, limit = shape
        if not self._fixed:
            return shape
        return _power(families), _power(rows), -(-columns // _COLUMNS) * _COLUMNS, limit

    def _read(self) -> None:
        """Read all prompts and draw each sample's first token."""
        tries = [PromptTrie(family) for family in self.families]
        width = max(len(trie.tokens) for trie in tries)
        shape = len(tries), max(map(len, self._rows)), width, self.families[0][0].limit
        self.slots = self._slots(self._fitting(shape))
        self.slots.column.zero_()
        self.slots.temperature.fill_(self.sampling.temperature)
        self.slots.positions.zero_()  # else those of idle rows would grow from batch to batch
        self.slots.banned.copy_(self._banned)
        shown = 1 + max(len(family[0].parent or ()) for family in self.families)
        logits = max(map(len, (trie.requests for trie in tries))) * shown * len(self._banned)
        at_once = max(1, min(_READ // width, _LOGITS // logits))
        for first in range(0, len(tries), at_once):
            self._read_families(first, tries[first : first + at_once], width)

    def _read_families(self, first: int, tries: Sequence[PromptTrie], width: int) -> None:
        """Read these families, which have the slots' rows from the first on, at a common width."""
        slots, device, families = self.slots, self.device, self.families[first : first + len(tries)]
        tokens, positions = torch.zeros(2, len(tries), width, dtype=torch.long)
        mask = torch.eye(width, dtype=torch.bool).repeat(len(tries), 1, 1)  # padding sees itself
        for row, trie in enumerate(tries):
            span = slice(width - len(trie.tokens), width)
            tokens[row, span], positions[row, span] = trie.tokens, trie.positions
            mask[row, span, span] = trie.visible
        mask = mask.to(device)
        blocks = tree_blocks(mask[:, None]) if device.type == "cpu" else []

        def attend(
            layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
        ) -> torch.Tensor:
            for part, fresh in zip(slots.layer(layer, key, value)[0], (key, value), strict=True):
                part[first : first + len(tries), :, :width] = fresh
            if blocks:
                return attend_in_trees(query, key, value, scaling, blocks)
            group = query.shape[1] // key.shape[1]  # with a mask, the quick kernels want a key for each head
            key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
            return scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None], scale=scaling)

        wanted = max(trie.wanted for trie in tries)
        logits = self._forward(tokens, positions, attend, logits_to_keep=wanted)
        requests = [
            (row, sample, path)
            for row, trie in enumerate(tries)
            for sample, path in zip(trie.requests, trie.paths, strict=True)
        ]
        # Where in its text a request sees each column, and from which columns its samples' first tokens come.
        rank = torch.full((len(requests), width), width)
        shown = 1 + max(len(sample.parent or ()) for _, sample, _ in requests)
        columns = torch.zeros(len(requests), shown, dtype=torch.long)
        for number, (row, sample, path) in enumerate(requests):
            places = torch.tensor(path) + width - len(tries[row].tokens)
            rank[number, places] = torch.arange(len(path))
            columns[number, shown - 1 - len(sample.parent or ()) :] = places[len(sample.prompt) - 1 :]
        rows = torch.tensor([row for row, *_ in requests])[:, None]
        logits = logits[rows.to(device), (columns - width + wanted).clamp(min=0).to(device)]
        of = {sample.request: number for number, (_, sample, _) in enumerate(requests)}
        samples = [sample for family in families for sample in family]
        asked = torch.tensor([of[sample.request] for sample in samples])
        uniforms = torch.stack([sample.uniforms for sample in samples]).to(device)
        followed, drawn = first_tokens(
            logits.masked_fill(self._banned, float("-inf")), [sample for _, sample, _ in requests],
            asked.to(device), uniforms, self._line_end, self.sampling,
        )  # fmt: skip
        for sample, kept in zip(samples, followed.tolist(), strict=True):
            sample.followed = kept
        ends = torch.tensor([len(sample.prompt) for sample in samples]).to(device) + followed
        seen = torch.zeros(len(samples), slots.shape[2], dtype=torch.bool, device=device)
        seen[:, :width] = rank[asked].to(device) < ends[:, None]
        at = tuple(
            torch.tensor(axis).to(device)
            for axis in zip(
                *((first + row, i) for row, family in enumerate(families) for i in range(len(family))),
                strict=True,
            )
        )
        slots.bias[at] = bias(seen)
        slots.tokens[at] = drawn
        slots.drawn[(*at, torch.zeros_like(drawn))] = drawn
        slots.positions[at] = ends
        slots.uniforms[at] = uniforms

    def _step(self) -> None:
        """Draw one token for each row."""
        self.slots.run(self._write)
        self._drawn += 1

    def _write(self) -> None:
        """The step itself."""
        slots = self.slots
        used = slots.shape[-1] if self._fixed else self._drawn
        own_bias = bias(torch.arange(used, device=self.device) <= slots.column)[None, None, None]

        def attend(
            layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
        ) -> torch.Tensor:
            prompt, own = slots.layer(layer, key, value)
            for part, fresh in zip(own, (key, value), strict=True):
                part.index_copy_(3, slots.column, fresh.transpose(1, 2).unsqueeze(3))
            read = own[0][:, :, :, :used], own[1][:, :, :, :used]
            return attend_to_both(query, prompt, slots.bias, read, own_bias, scaling)

        logits = self._forward(slots.tokens, slots.positions, attend).flatten(0, 1)
        weights, tokens = truncate(
            logits.masked_fill(slots.banned, float("-inf")), slots.temperature, self.sampling.top_k
        )
        # The first number was for the deviation, the second for the first token.
        uniforms = slots.uniforms.flatten(0, 1).index_select(1, slots.column + 2)[:, 0]
        chosen = tokens.gather(1, draw(weights, uniforms).unsqueeze(-1)).view_as(slots.tokens)
        slots.column.add_(1)
        slots.positions.add_(1)
        slots.tokens.copy_(chosen)
        slots.drawn.index_copy_(2, slots.column, chosen.unsqueeze(-1))

    def _forward(self, tokens: torch.Tensor, positions: torch.Tensor, attend: Attend, **options: Any) -> Any:
        """Logits (F, N, vocabulary) for tokens (F, N)."""
        return self.model(
            input_ids=tokens.to(self.device),
            position_ids=positions.to(self.device),
            attention_mask=self._mask,
            use_cache=False,
            attend=attend,
            **options,
        ).logits

    def _shrink(self) -> None:
        """Leave out rows whose samples have ended, and families without others."""
        left = [[i for i, sample in enumerate(row) if sample not in self._ended] for row in self._rows]
        kept = [family for family, rows in enumerate(left) if rows]
        widest = max(map(len, left))
        shape = self._fitting((len(kept), widest, *self.slots.shape[2:]))
        late = self._shelf is not None and shape not in self._shelf and shape[-1] - self._drawn < _WORTH
        if shape == self.slots.shape or late:
            return
        slots = self._slots(shape)
        rows = torch.tensor([left[family] + [0] * (widest - len(left[family])) for family in kept])
        families = torch.tensor(kept).to(self.device)
        slots.take(self.slots, families, rows.to(self.device), self._drawn, share=not self._fixed)
        self._rows = [[self._rows[family][i] for i in left[family]] for family in kept]
        self.slots = slots


def _power(number: int) -> int:
    """The next power of two."""
    return 1 << (number - 1).bit_length()
