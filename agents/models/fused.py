"""Fewer, larger kernels for a model that writes on a GPU.

A step of a small model lasts as long as its kernels take to start. Linear layers that read the same input (queries,
keys and values; gate and up) compute as one product of their joined weights, and an RMS norm of the usual form is one
kernel instead of six. Both round at other places than the model's own layers, in bfloat16 by its last bit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear, rms_norm

_SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
_LARGEST = 2 * 10**9
"""Weights that are joined at most, in bytes: a larger model is not held up by its kernels' starts."""


@contextmanager
def fused(model: nn.Module) -> Iterator[None]:
    """Within the block the model computes like this, without gradients. Its weights must not change in it."""
    patches: dict[nn.Module, Callable[..., Any]] = {}
    joined = [found for module in model.modules() for found in _siblings(module)]
    if sum(layer.weight.nbytes for layers in joined for layer in layers) <= _LARGEST:
        for layers in joined:
            product = _Product(layers)
            patches |= {layer: partial(product.part, number) for number, layer in enumerate(layers)}
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and hasattr(module, "variance_epsilon"):
            patches[module] = partial(_norm, module)
    before = {module: vars(module).get("forward") for module in patches}
    try:
        for module, forward in patches.items():
            vars(module)["forward"] = forward
        yield
    finally:
        for module, own in before.items():
            vars(module).pop("forward")
            if own is not None:
                vars(module)["forward"] = own


def _siblings(module: nn.Module) -> Iterator[list[nn.Linear]]:
    """Plain linear layers of a module that read the same input; behind adapters, their base layers."""
    for names in _SIBLINGS:
        layers = [
            getattr(getattr(module, name, None), "base_layer", getattr(module, name, None)) for name in names
        ]
        if all(type(layer) is nn.Linear for layer in layers):
            yield layers  # type: ignore[misc]


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


def _norm(module: Any, hidden: torch.Tensor) -> torch.Tensor:
    return rms_norm(hidden, module.weight.shape, module.weight, module.variance_epsilon)
