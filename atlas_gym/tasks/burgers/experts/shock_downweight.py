"""Shock down-weighting: squared residuals divided by 1 + |u_x|; weights 1, 2, 2."""

import torch


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    w_data = 2.0
    weight = 1.0 / (1.0 + torch.abs(extras["u_x"]))
    loss_pde = torch.mean(weight * residuals**2)
    return loss_pde + w_data * (torch.mean(ic_err**2) + torch.mean(bc_err**2))
