"""Shock down-weighting: residuals divided by 1 + |u_x|; weights 4, 10, 10."""

import torch


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    w_pde = 4.0
    w_data = 10.0
    weight = 1.0 / (1.0 + torch.abs(extras["u_x"]))
    loss_pde = torch.mean((weight * residuals) ** 2)
    return w_pde * loss_pde + w_data * (torch.mean(ic_err**2) + torch.mean(bc_err**2))
