"""Keys and values of decoding in tensors with room for the next steps.

Transformers' own cache appends by copying all it has, at every token. Here a step copies what is new, and all of it
only once in so many steps.
"""

import math
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

_ROOM = 0.5
"""How much larger a tensor is than what it is begun with, as a share of that."""


class RoomyLayer(DynamicLayer):
    """A layer's keys and values, each the front of a tensor of its own. The batch may lose sequences, as decoding
    does (`batch_select_indices`); it is not to be reordered or repeated."""

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


def roomy_cache() -> Cache:
    """An empty cache of such layers."""
    return Cache(layer_class_to_replicate=RoomyLayer)


def _room(kept: torch.Tensor | None, fresh: torch.Tensor, columns: int) -> torch.Tensor:
    """A tensor for so many columns and more, what is kept in front."""
    batch, heads, _, width = fresh.shape
    room = fresh.new_empty(batch, heads, columns + math.ceil(columns * _ROOM), width)
    if kept is not None and kept.numel():
        room[..., : kept.shape[-2], :] = kept
    return room
