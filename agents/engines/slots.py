"""What a step of decoding reads and writes, as tensors of one shape, and a few shapes kept with their graphs."""

import torch

from atlas_gym.agents.models.captured import Captured

Pair = tuple[torch.Tensor, torch.Tensor]
"""Keys and values."""
Shape = tuple[int, int, int, int]
"""Families, rows of a family, columns of its prompts, tokens that a row may draw."""


class Slots:
    """All that a step reads and writes, for one shape."""

    def __init__(self, shape: Shape, vocabulary: int, device: torch.device, fixed: bool) -> None:
        families, rows, columns, limit = self.shape = shape
        # Where columns are read that were never written they have weight 0, but 0 · NaN is no number.
        self._new = torch.Tensor.new_zeros if fixed else torch.Tensor.new_empty
        # the last token of each row
        self.tokens = torch.zeros(families, rows, dtype=torch.long, device=device)
        self.positions = torch.zeros_like(self.tokens)  # its place in the text that its row sees
        self.bias = torch.zeros(families, rows, columns, device=device)  # what of the prompts each row sees
        self.uniforms = torch.zeros(families, rows, limit + 1, dtype=torch.float64, device=device)
        self.drawn = torch.zeros(families, rows, limit, dtype=torch.long, device=device)
        # where the last token stands in `drawn`, and its keys and values among the own ones
        self.column = torch.zeros(1, dtype=torch.long, device=device)
        self.banned = torch.zeros(vocabulary, dtype=torch.bool, device=device)
        self.temperature = torch.ones(1, dtype=torch.float64, device=device)
        self.prompt: dict[int, Pair] = {}  # by layer, (families, key heads, columns, D)
        self.own: dict[int, Pair] = {}  # by layer, (families, rows, key heads, limit, D)
        self.run = Captured(False)

    @property
    def nbytes(self) -> int:
        """What keys and values take."""
        return sum(
            part.nbytes for layers in (self.prompt, self.own) for pair in layers.values() for part in pair
        )

    def layer(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> tuple[Pair, Pair]:
        """Prompt's and own keys and values of a layer, whose heads are like those of these (…, key heads, any, D)."""
        families, rows, columns, limit = self.shape
        if layer not in self.prompt:
            k, v = (self._new(x, (families, x.shape[-3], columns, x.shape[-1])) for x in (key, value))
            self.prompt[layer] = k, v
        if layer not in self.own:
            k, v = (self._new(x, (families, rows, x.shape[-3], limit, x.shape[-1])) for x in (key, value))
            self.own[layer] = k, v
        return self.prompt[layer], self.own[layer]

    def take(
        self, other: "Slots", families: torch.Tensor, rows: torch.Tensor, used: int, *, share: bool
    ) -> None:
        """Copy these rows (F, R) of these families (F,) of slots with as many columns, and `used` tokens of each.
        `share`: prompts need no copy where all families stay."""
        at = families[:, None], rows
        here = slice(len(families)), slice(rows.shape[1])
        self.positions.zero_()
        for name in ("tokens", "positions", "bias", "uniforms", "drawn"):
            getattr(self, name)[here] = getattr(other, name)[at]
        self.column.copy_(other.column)
        self.banned.copy_(other.banned)
        self.temperature.copy_(other.temperature)
        if share and len(families) == other.shape[0]:
            self.prompt = other.prompt
        for layer, theirs in other.own.items():
            prompt, own = self.layer(layer, *theirs)
            for target, source in zip(own, theirs, strict=True):
                target[here][..., :used, :] = source[..., :used, :][at]
            if self.prompt is not other.prompt:
                for target, source in zip(prompt, other.prompt[layer], strict=True):
                    target[here[0]] = source[families]


class Shelf:
    """Slots of few shapes, each with its graph, kept from batch to batch while they take no more than `room` bytes, the
    latest always. Weights change in place, so graphs stay right. `graphs`: steps are captured."""

    def __init__(self, graphs: bool, room: float) -> None:
        self._graphs, self._room = graphs, room
        self._pool = torch.cuda.graph_pool_handle() if graphs else None
        self._kept: dict[Shape, Slots] = {}  # the latest last

    def __contains__(self, shape: Shape) -> bool:
        return shape in self._kept

    def take(self, shape: Shape, vocabulary: int, device: torch.device) -> Slots:
        """Those of a shape; what was not used for longest gives way."""
        while len(self._kept) > 1 and sum(slots.nbytes for slots in self._kept.values()) > self._room:
            del self._kept[next(iter(self._kept))]
        slots = self._kept.pop(shape, None)
        if slots is None:
            slots = Slots(shape, vocabulary, device, True)
            slots.run = Captured(self._graphs, self._pool)
        self._kept[shape] = slots
        return slots
