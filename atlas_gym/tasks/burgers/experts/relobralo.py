"""ReLoBRaLo (Bischof and Kraus 2021): relative loss balancing with random lookback, τ 1, α 0.99.

Weights compare each term with its value in the last epoch, and now and then with its first.
"""

import torch

alpha = 0.99
tau = 1.0
lookback = 0.999
state = {}


def balance(values, before):
    return 3.0 * torch.softmax(values / (tau * before + 1e-12), dim=0)


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    losses = torch.stack([torch.mean(residuals**2), torch.mean(ic_err**2), torch.mean(bc_err**2)])
    values = losses.detach()
    if "first" not in state:
        state["first"] = values
        state["weights"] = torch.ones(3)
    else:
        recent = torch.rand(()) < lookback
        history = state["weights"] if recent else balance(values, state["first"])
        state["weights"] = alpha * history + (1 - alpha) * balance(values, state["last"])
    state["last"] = values
    return torch.sum(state["weights"] * losses)
