"""Layers of a model that compute the same with less time and memory, mostly for a CPU.

*LoRA.* PEFT casts a layer's input to the adapter's float32, multiplies there, scales the result, adds it to the base's
in mixed precision and rounds to the base's dtype. In bfloat16 on a CPU that takes as long as the base's own product,
most of it for the mixed addition, and float32 copies of the inputs are kept for the gradient. Here the adapter is
rounded to the dtype that the base answers in, its scale included, and one `addmm` adds the update before the sum is
rounded. In float32 that is PEFT's own result; in bfloat16 both round the sum once. Adapters, their gradients and
the optimiser stay float32.

*Norms.* An RMS norm works in float32, and each of its steps keeps a float32 matrix as wide as the hidden state: over a
model of 30 layers a tenth of what a phase holds in memory. Here its few elementwise steps are done again for the
gradient. Values and gradients are the same to the last bit.

*Packed weights.* For a few tokens at a time, a product on a CPU spends a good part of its time, in bfloat16 a third, on
putting the weights in order, in every layer and at every token. While a model writes, its linear layers answer from a
copy of their weights in oneDNN's own order: the call that `torch.compile` makes of a linear layer whose weights do not
change any more, without its minutes of compilation. In float32 a product of one to three tokens stays as it is: there
PyTorch's own reads the weights in place.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

_CPU_INFO = Path("/proc/cpuinfo")
_BF16 = re.compile(r"\b(amx_bf16|avx512_bf16|bf16)\b")
"""Instructions for bfloat16 as the kernel calls them on x86-64, the last one on Arm."""

_ROWS = 64
"""For products of how many tokens the order of packed weights is chosen; others use it as well."""

_FEW = 3
"""Tokens of a float32 product that is quicker without such an order."""

_LARGEST = 2 * 10**9
"""Weights that are copied at most, in bytes. What is larger stays as it is."""


def fitting_dtype(device: str | torch.device, cpu_info: Path = _CPU_INFO) -> torch.dtype:
    """bfloat16, but float32 on a processor that would have to emulate it, and multiply more slowly by far; `cpu_info`
    is what the kernel says of the processor."""
    if torch.device(device).type != "cpu":
        return torch.bfloat16
    known = cpu_info.read_text(encoding="utf-8") if cpu_info.is_file() else ""
    return torch.bfloat16 if _BF16.search(known) else torch.float32


class LeanLinear(Linear):
    """PEFT's linear layer with adapters, the forward pass apart."""

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Base and active adapters of x (…, inputs), (…, outputs) in the dtype of the base's answer."""
        if args or kwargs or self.disable_adapters or self.merged:
            return super().forward(x, *args, **kwargs)
        result: torch.Tensor = self.base_layer(x)
        for name in self.active_adapters:
            if name in self.lora_A:
                result = self._add_update(name, x, result)
        return result

    def _add_update(self, name: str, x: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        down = self.lora_A[name].get_parameter("weight").to(result.dtype)
        up = (self.lora_B[name].get_parameter("weight") * self.scaling[name]).to(result.dtype)
        narrow = linear(self.lora_dropout[name](x).to(result.dtype), down)
        return torch.addmm(result.flatten(0, -2), narrow.flatten(0, -2), up.T).view_as(result)


def make_lean(model: nn.Module) -> None:
    """Let PEFT's linear layers in `model` compute like this."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = LeanLinear


def recompute_norms(model: nn.Module) -> None:
    """Let the RMS norms in `model` compute like this; transformers has a class of them for every family."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = partial(_recomputed, module.forward)


def _recomputed(forward: Callable[..., torch.Tensor], hidden: torch.Tensor, *others: Any) -> Any:
    if torch.is_grad_enabled() and hidden.requires_grad:
        return checkpoint(forward, hidden, *others, use_reentrant=False, preserve_rng_state=False)
    return forward(hidden, *others)


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
