"""Residual-based attention (Anagnostopoulos et al. 2023): a weight per point that follows its residual.

w ← γ w + η |r| / max|r| with γ 0.999, η 0.01, from zero; initial and boundary weights 10.
"""

import torch

gamma = 0.999
eta = 0.01
w_data = 10.0
state = {}


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    size = residuals.detach().abs()
    attention = state.get("attention", torch.zeros_like(size))
    state["attention"] = gamma * attention + eta * size / (size.max() + 1e-12)
    loss_pde = torch.mean((state["attention"] * residuals) ** 2)
    return loss_pde + w_data * (torch.mean(ic_err**2) + torch.mean(bc_err**2))
