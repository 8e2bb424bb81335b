"""Fold an adapter into the base weights for generation, and take it out again without a trace.

An unmerged adapter costs generation a factor of two and more, so samples are drawn from merged weights.
Undoing the merge by subtraction is lossy in bfloat16: (W + Δ) − Δ ≠ W, and the base model would drift a
little in every round. So nothing is subtracted: the original of each matrix is kept in main memory for as long as the
merge lasts.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Kept = list[tuple[torch.Tensor, torch.Tensor]]
"""Each matrix that is merged at the moment, and what it was."""


@contextmanager
def exact_merge(layers: Iterable[Any], adapter: str, kept: Kept) -> Iterator[None]:
    """W + s·B·A for W in each of PEFT's linear layers, computed in float32 and rounded once, for the time of the
    block. Layers with B = 0 are left alone."""
    try:
        with torch.no_grad():
            for layer in layers:
                if torch.any(layer.lora_B[adapter].weight):
                    weight = layer.get_base_layer().weight
                    kept.append((weight, weight.detach().to("cpu", copy=True)))
                    weight.copy_(weight.float() + layer.get_delta_weight(adapter).float())
        yield
    finally:
        with torch.no_grad():
            while kept:
                weight, original = kept.pop()
                weight.copy_(original)
