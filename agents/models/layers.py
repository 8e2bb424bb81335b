"""Layers of a model that compute the same with less time and memory, mostly for a CPU.

*LoRA.* PEFT adds the scaled update to the base's answer in mixed precision, which in bfloat16 on a CPU takes as long as
the base's own product, and keeps float32 copies of the inputs for the gradient. Here a layer holds the adapter in use,
`Held`, rounded once to the dtype that the base answers in, and one `addmm` adds the scaled update before the sum is
rounded. In float32 that is PEFT's own result. The adapters themselves, their gradients and the optimiser stay float32.

*Norms.* An RMS norm works in float32, and autograd keeps several float32 matrices as wide as the hidden state for each.
Here one number per token is kept beside the input: half the time, and a tenth less memory in a phase. On a GPU it is
PyTorch's fused kernel.

*Packed weights.* For a few tokens at a time, a product on a CPU spends up to a third of its time on putting the weights
in order. While a model writes, its linear layers answer from a copy of their weights in oneDNN's own order: the call
that `torch.compile` makes, without its minutes of compilation. In float32 a product of one to three tokens stays as it
is: there PyTorch's own reads the weights in place.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft.tuners.lora import Linear
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, rms_norm

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


class Held(NamedTuple):
    """The adapter that a layer computes with."""

    down: torch.Tensor  # A, (rank, inputs)
    up: torch.Tensor  # B, (outputs, rank)
    scaling: float  # of the update B·A·x


class LeanLinear(Linear):
    """PEFT's linear layer with adapters, the forward pass apart."""

    held: Held | None = None  # what it computes with; None: PEFT's active adapters, as PEFT does

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Base and adapter of x (…, inputs), (…, outputs) in the dtype of the base's answer."""
        if self.disable_adapters and not self.merged:
            return self.base_layer(x)
        if self.held is None:
            return super().forward(x, *args, **kwargs)
        down, up, scaling = self.held
        result: torch.Tensor = self.base_layer(x)
        narrow = linear(x.to(result.dtype), down)
        return torch.addmm(result.flatten(0, -2), narrow.flatten(0, -2), up.T, alpha=scaling).view_as(result)


def make_lean(model: nn.Module) -> None:
    """Let PEFT's linear layers and the RMS norms in `model` compute like this."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = LeanLinear
        # What transformers' classes call the number tells those that multiply by the weight from those that
        # multiply by one more than it.
        elif type(module).__name__.endswith("RMSNorm") and hasattr(module, "variance_epsilon"):
            module.forward = partial(_normed, module)


def _normed(norm: Any, hidden: torch.Tensor) -> torch.Tensor:
    if hidden.device.type != "cpu":
        return rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)
    normed: torch.Tensor = _RMSNorm.apply(hidden, norm.weight, norm.variance_epsilon)
    return normed


class _RMSNorm(torch.autograd.Function):
    """(hidden (…, D), weight (D,), ε) → (…, D); the weight is frozen."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        wide = hidden.float()
        size = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(hidden, weight, size)
        return weight * (wide * size).to(hidden.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, size = ctx.saved_tensors
        normed, gradient = hidden.float() * size, (gradient * weight).float()
        along = (gradient * normed).mean(-1, keepdim=True)
        return (size * (gradient - normed * along)).to(hidden.dtype), None, None


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
