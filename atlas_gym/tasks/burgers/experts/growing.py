"""The plain loss times 1.05^epoch, which lengthens Adam's steps."""

import torch

growth = 1.05


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    loss = torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)
    return growth ** extras["epoch"] * loss
