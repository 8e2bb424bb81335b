"""Norms whose gradient is written out: the same numbers, fewer of them kept."""

import copy

import torch
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from atlas_gym.agents.models.layers import make_lean


def two_norms() -> tuple[nn.Module, nn.Module]:
    """One as it comes and one that is lean, of the same weights."""
    stock = nn.Sequential(LlamaRMSNorm(64))
    stock[0].weight.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(0))
    lean = copy.deepcopy(stock)
    make_lean(lean)
    return stock, lean


def run(norm: nn.Module) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Output, gradient of the input, and how many bytes wait for it besides input and weight."""
    hidden = torch.randn(8, 64, generator=torch.Generator().manual_seed(1)).bfloat16().requires_grad_()
    known, kept = {hidden.data_ptr(), norm[0].weight.data_ptr()}, {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in known:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = norm(hidden)
    bytes_kept = sum(kept.values())
    output.float().square().sum().backward()
    return output, hidden.grad, bytes_kept


def test_values_and_gradients_are_the_same_and_nothing_else_is_kept() -> None:
    stock, lean = (run(norm) for norm in two_norms())
    assert torch.equal(stock[0], lean[0])
    assert (lean[1] - stock[1]).norm() < 4e-3 * stock[1].norm()  # a sum that is rounded once instead of twice
    assert stock[2] > 8 * 64 * 4
    assert lean[2] == 8 * 4  # one number per token
