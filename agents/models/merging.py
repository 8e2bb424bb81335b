"""Fold an adapter into the base weights for generation, and take it out again without a trace.

An unmerged adapter costs generation a factor of two and more, so samples are drawn from merged weights.
Undoing the merge by subtraction is lossy in bfloat16: (W + Δ) − Δ ≠ W, and the base model would drift a
little in every round. So nothing is subtracted: the original of each matrix is kept in main memory for as long as the
merge lasts.
"""

from collections.abc import Mapping

import torch
from peft.tuners.lora import Linear


class ExactMerge:
    """Merges one adapter at a time into the base weights of `layers` and restores them exactly."""

    def __init__(self, layers: Mapping[str, Linear]) -> None:
        """`layers`: module name → layer, unmerged."""
        self._layers = layers
        self._kept: dict[str, torch.Tensor] = {}

    def require_unmerged(self) -> None:
        """RuntimeError if an adapter is merged at the moment."""
        if self._kept:
            raise RuntimeError("an adapter is merged for generation; leave `merged()` first")

    @torch.no_grad()
    def merge(self, adapter: str) -> None:
        """W ← W + s·B·A in every layer, computed in float32 and rounded once. Layers with B = 0 are left
        alone."""
        self.require_unmerged()
        for name, layer in self._layers.items():
            if not torch.any(layer.lora_B[adapter].get_parameter("weight")):
                continue
            weight = _base_weight(layer)
            self._kept[name] = weight.detach().to("cpu", copy=True)
            weight.copy_(weight.float() + layer.get_delta_weight(adapter).float())

    @torch.no_grad()
    def restore(self) -> None:
        """Put every touched weight back to its original bits."""
        for name, original in self._kept.items():
            _base_weight(self._layers[name]).copy_(original)
        self._kept.clear()


def _base_weight(layer: Linear) -> torch.Tensor:
    return layer.get_base_layer().get_parameter("weight")
