"""Loss strategies with numbers left open; bounds are wide, and their middle is the plain loss."""

from atlas_gym.tasks.parameter import Parameter
from atlas_gym.tasks.template import Template

LOSS_WEIGHTS = Template(
    "loss_weights",
    """\
import torch


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    w_pde = $w_pde
    w_ic = $w_ic
    w_bc = $w_bc
    steep = $steep
    weight = 1.0 / (1.0 + steep * torch.abs(extras["u_x"]))
    loss_pde = torch.mean(weight * residuals**2)
    loss_ic = torch.mean(ic_err**2)
    loss_bc = torch.mean(bc_err**2)
    return w_pde * loss_pde + w_ic * loss_ic + w_bc * loss_bc
""",
    (
        Parameter("w_pde", 0.01, 100.0),
        Parameter("w_ic", 0.01, 100.0),
        Parameter("w_bc", 0.01, 100.0),
        Parameter("steep", 0.0, 5.0, scale="linear"),
    ),
)
"""Weights of the three terms, and how much a residual counts less where the solution is steep (the shock)."""
