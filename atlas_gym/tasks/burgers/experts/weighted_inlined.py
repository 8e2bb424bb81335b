"""The plain loss with its constants inlined."""

import torch


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)
