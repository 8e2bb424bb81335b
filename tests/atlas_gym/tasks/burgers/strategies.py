"""Loss functions and programs that the tests share."""

import torch

PLAIN = "return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)"


def program(body: str, before: str = "") -> str:
    """A program whose function has this body (one statement per line)."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"import torch\n{before}\ndef pinn_loss_strategy(residuals, ic_err, bc_err, extras):\n{lines}"


def plain(residuals, ic_err, bc_err, extras):
    return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)


def uneven(residuals, ic_err, bc_err, extras):
    """Depends on every vector and on the extras, smoothly and differently at every point."""
    weight = 1.0 / (1.0 + extras["u_x"].abs()) + extras["t"] * extras["nu"] + extras["x"] ** 2
    late = extras["epoch"] / extras["n_epochs"]
    return torch.mean(weight * torch.cosh(residuals)) + (2.0 - late) * (
        torch.mean(ic_err**4) + torch.mean(bc_err**2)
    )
