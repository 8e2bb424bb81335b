"""Normalisation that keeps nothing for its gradient but its input.

An RMS norm works in float32, and each of its steps keeps a float32 matrix as wide as the hidden state: over a model of
30 layers a tenth of what a phase holds in memory. Here its few elementwise steps are done again for the gradient, which
takes next to no time beside the layers' products. Values and gradients are the same to the last bit.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def recompute_norms(model: nn.Module) -> None:
    """Let the RMS norms in `model` compute like this; transformers has a class of them for every family."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = partial(_recomputed, module.forward)


def _recomputed(forward: Callable[..., torch.Tensor], hidden: torch.Tensor, *others: Any) -> Any:
    if torch.is_grad_enabled() and hidden.requires_grad:
        return checkpoint(forward, hidden, *others, use_reentrant=False, preserve_rng_state=False)
    return forward(hidden, *others)
