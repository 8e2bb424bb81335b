"""Fold an adapter into the base weights for generation, and take it out again without a trace.

An unmerged adapter costs generation a factor of two and more, so samples are drawn from merged weights.
Undoing the merge by subtraction is lossy in bfloat16: (W + Δ) − Δ ≠ W, and the base model would drift a
little in every round. So nothing is subtracted. The original of each matrix is read again from the model's
safetensors files, one matrix at a time: bit for bit the same, and no second copy of the weights is ever
held. A matrix that the files do not hold as it is in memory (a quantised or converted checkpoint) is kept
in memory instead, for as long as the merge lasts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft.tuners.lora import Linear
from safetensors import safe_open


class ExactMerge:
    """Merges one adapter at a time into the base weights of `layers` and restores them exactly."""

    def __init__(self, layers: Mapping[str, Linear], folder: Path | None) -> None:
        """`layers`: module name → layer, unmerged. `folder`: where the checkpoint lies, None if nowhere."""
        self._layers = layers
        self._files = _open_matching(layers, folder) if folder is not None else {}
        self._kept: dict[str, torch.Tensor] = {}
        self._touched: list[str] = []

    def require_unmerged(self) -> None:
        """RuntimeError if an adapter is merged at the moment."""
        if self._touched:
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
            if name not in self._files:
                self._kept[name] = weight.detach().clone()
            self._touched.append(name)
            weight.copy_(weight.float() + layer.get_delta_weight(adapter).float())

    @torch.no_grad()
    def restore(self) -> None:
        """Put every touched weight back to its original bits."""
        while self._touched:
            name = self._touched[-1]
            weight = _base_weight(self._layers[name])
            weight.copy_(self._kept[name] if name in self._kept else self._files[name].get_tensor(_key(name)))
            self._touched.pop()
        self._kept.clear()


def _key(module: str) -> str:
    return f"{module}.weight"


def _base_weight(layer: Linear) -> torch.Tensor:
    return layer.get_base_layer().get_parameter("weight")


def _open_matching(layers: Mapping[str, Linear], folder: Path) -> dict[str, Any]:
    """Open safetensors file of each module whose weight on disk is, cast to its dtype, the weight in memory.

    The handles stay open, and with them the mapped files: deleting the folder later does no harm.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        handle = safe_open(path, framework="pt")
        keys = set(handle.keys())
        for name, layer in layers.items():
            if _key(name) in keys:
                weight = _base_weight(layer)
                if torch.equal(handle.get_tensor(_key(name)).to(weight.device, weight.dtype), weight):
                    found[name] = handle
    return found
