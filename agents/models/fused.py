"""Fewer, larger kernels for a model that writes on a GPU.

A step of a small model lasts as long as its kernels take to start. Linear layers that read the same input (queries,
keys and values; gate and up) compute as one product of their joined weights.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn
from torch.nn.functional import linear

_SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
_LARGEST = 2 * 10**9
"""Weights that are joined at most, in bytes: a larger model is not held up by its kernels' starts."""


@contextmanager
def fused(model: nn.Module) -> Iterator[None]:
    """Within the block the model computes like this, without gradients. Its weights must not change in it."""
    joined = [found for module in model.modules() for found in _siblings(module)]
    if sum(layer.weight.nbytes for layers in joined for layer in layers) > _LARGEST:
        joined = []
    try:
        for layers in joined:
            product = _Product(layers)
            for number, layer in enumerate(layers):
                vars(layer)["forward"] = partial(product.part, number)
        yield
    finally:
        for layer in (layer for layers in joined for layer in layers):
            vars(layer).pop("forward", None)


def _siblings(module: nn.Module) -> Iterator[list[nn.Linear]]:
    """Plain linear layers of a module that read the same input; behind adapters, their base layers."""
    for names in _SIBLINGS:
        layers = [
            getattr(getattr(module, name, None), "base_layer", getattr(module, name, None)) for name in names
        ]
        plain = [layer for layer in layers if type(layer) is nn.Linear]
        if len(plain) == len(layers):
            yield plain


class _Product:
    """One product for several layers, made when the first is asked."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        self.layers = layers
        self.weight = torch.cat([layer.weight.detach() for layer in layers])
        biases = [layer.bias for layer in layers]
        self.bias = None if biases[0] is None else torch.cat([bias.detach() for bias in biases])
        self.input: torch.Tensor | None = None
        self.answers: tuple[torch.Tensor, ...] = ()

    def part(self, number: int, inputs: torch.Tensor) -> torch.Tensor:
        """The answer of one of the layers."""
        if number == 0:
            self.input = inputs
            self.answers = linear(inputs, self.weight, self.bias).split(
                [layer.out_features for layer in self.layers], dim=-1
            )
        elif inputs is not self.input:
            return linear(inputs, self.layers[number].weight, self.layers[number].bias)
        answer = self.answers[number]
        if number == len(self.layers) - 1:
            self.input, self.answers = None, ()
        return answer
