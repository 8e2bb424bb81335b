"""A model's weights in the order in which a processor multiplies by them, for as long as it writes.

For a few tokens at a time, a product on a CPU spends a good part of its time, in bfloat16 a third, on putting the
weights in order, in every layer and at every token. Here that is done once: a linear layer answers from a copy of its
weights in oneDNN's own order. It is the call that `torch.compile` makes of a linear layer whose weights do not change
any more, without its minutes of compilation.

In float32 a product of one to three tokens stays as it is: there PyTorch's own reads the weights in place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

_ROWS = 64
"""For products of how many tokens the order is chosen; others use it as well."""

_FEW = 3
"""Tokens of a float32 product that is quicker without such an order."""

_LARGEST = 2 * 10**9
"""Weights that are copied at most, in bytes. What is larger stays as it is."""


@contextmanager
def packed_weights(model: nn.Module) -> Iterator[None]:
    """Within the block the model's linear layers on a CPU compute from such copies, in bfloat16 if it has instructions
    for that. Their weights must not change in it, and nothing has a gradient."""
    layers = [module for module in model.modules() if type(module) is nn.Linear and _packable(module)]
    if sum(layer.weight.nbytes for layer in layers) > _LARGEST:
        layers = []
    try:
        for layer in layers:
            packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _ROWS)
            vars(layer)["forward"] = partial(_product, layer, packed)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _packable(layer: nn.Linear) -> bool:
    if (
        "forward" in vars(layer)
        or layer.weight.device.type != "cpu"
        or not torch.backends.mkldnn.is_available()
    ):
        return False
    if layer.weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return layer.weight.dtype == torch.float32


def _product(layer: nn.Linear, packed: torch.Tensor, inputs: torch.Tensor) -> Any:
    if inputs.dtype == torch.float32 and inputs.numel() <= _FEW * layer.in_features:
        return linear(inputs, layer.weight, layer.bias)
    return torch.ops.mkldnn._linear_pointwise(inputs, packed, layer.bias, "none", [], "")
