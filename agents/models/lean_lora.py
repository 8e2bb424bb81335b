"""LoRA's forward pass without its passes over wide float32 matrices.

PEFT casts a layer's input to the adapter's float32, multiplies there, scales the result, adds it to the base's in
mixed precision and rounds to the base's dtype. In bfloat16 on a CPU that takes as long as the base's own product,
most of it for the mixed addition, and float32 copies of the inputs are kept for the gradient. Here the adapter is
rounded to the dtype that the base answers in, its scale included, and one `addmm` adds the update before the sum is
rounded. In float32 that is PEFT's own result; in bfloat16 both round the sum once. Adapters, their gradients and
the optimiser stay float32.
"""

from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import nn
from torch.nn.functional import linear


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
