"""Epoch schedule: initial and boundary weights fall from 100 to 1, geometrically."""

import torch

start = 100.0


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    progress = extras["epoch"] / extras["n_epochs"]
    w_data = start ** (1.0 - progress)
    return torch.mean(residuals**2) + w_data * (torch.mean(ic_err**2) + torch.mean(bc_err**2))
