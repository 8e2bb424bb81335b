"""SoftAdapt (Heydari et al. 2019): weights by the softmax of each term's rate of change, β 0.1.

The normalised, loss-weighted variant, averaged over the last steps; a term that falls slowly gets more
weight.
"""

import torch

beta = 0.1
smoothing = 0.9
state = {}


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    losses = torch.stack([torch.mean(residuals**2), torch.mean(ic_err**2), torch.mean(bc_err**2)])
    values = losses.detach()
    if "last" not in state:
        state["rate"] = torch.zeros(3)
    else:
        state["rate"] = smoothing * state["rate"] + (1 - smoothing) * (values - state["last"])
    state["last"] = values
    rate = state["rate"] / (state["rate"].abs().sum() + 1e-12)
    weights = values * torch.exp(beta * rate)
    weights = 3.0 * weights / weights.sum()
    return torch.sum(weights * losses)
