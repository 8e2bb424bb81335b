"""Prompts of the Burgers task: the signature, the task in words, hints."""

from atlas_gym.tasks.burgers.params import BurgersParams

_TEMPLATE = """\
Write a Python function `pinn_loss_strategy` that computes the training loss of a physics-informed network.

The network u(x, t) is to solve the viscous Burgers equation u_t + u u_x = ν(t) u_xx on −1 ≤ x ≤ 1,
0 ≤ t ≤ 1 with u(x, 0) = −sin πx and u(±1, t) = 0. The viscosity ν {drift}{shock}.
The network has {p.hidden_layers} hidden layers of {p.hidden_width} tanh units. Adam, step size {p.learning_rate:g}, \
trains it
for {p.steps} epochs on the loss that your function returns, in float64. {goal}

def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    residuals: tensor ({p.n_residual},), u_t + u u_x − ν u_xx at the collocation points.
    ic_err: tensor ({p.n_initial},), u(x, 0) + sin πx at the initial points.
    bc_err: tensor ({p.n_boundary},), u(±1, t) at the boundary points.
    extras: dict with "epoch" (0 … {last}), "n_epochs" ({p.steps}) and, at the collocation points, tensors
        ({p.n_residual},) without gradient: "x", "t", "nu" (the viscosity), "u", "u_x".
    Returns a scalar tensor that depends on residuals, ic_err and bc_err.

PyTorch is available as torch and torch.nn.functional as F. The function is called once per epoch.
Module-level variables keep their values between the epochs of one training and start afresh for each. No
files, network or processes."""

_DRIFT = {
    "geometric": "drifts from {p.nu0:.3g} at t = 0 to {p.nu1:.3g} at t = 1, geometrically",
    "linear": "drifts from {p.nu0:.3g} at t = 0 to {p.nu1:.3g} at t = 1, linearly",
    "constant": "is {p.nu1:.3g}",
}
_SHOCK = ", so that a shock forms at x = 0"
_GOAL = {
    "relative_l2": "The score is the negative relative L2 error of u against the exact solution, averaged "
    "over {p.replicas} trainings: higher is better, 0 is perfect, u = 0 scores −1.",
    "residual": "The score is the negative sum of the mean squares of the three errors at held-out points, "
    "averaged over {p.replicas} trainings: higher is better, 0 is perfect, u = 0 scores −0.5.",
    "nvl": "The score is the negative of this loss itself at held-out points, averaged over {p.replicas} "
    "trainings: higher is better.",
}


def description(params: BurgersParams) -> str:
    return _TEMPLATE.format(
        p=params,
        drift=_DRIFT[params.schedule].format(p=params),
        shock=_SHOCK if params.nu1 < 0.01 else "",
        last=params.steps - 1,
        goal=_GOAL[params.metric].format(p=params),
    )


HINTS = (
    "scale: the terms for residual, initial condition and boundary differ by orders of magnitude, and the largest "
    "hides the others; weights, or a division by a running scale, balance them",
    "the shock: a few points in steep regions dominate a squared residual; a Huber loss, clipping per component or "
    'less weight where `extras["u_x"]` is large calms them',
    'the schedule: `extras["epoch"]` and `extras["n_epochs"]` allow the initial and boundary terms to lead early',
    "a dropped term: without the initial condition the zero function is a perfect solution",
)
"""What usually limits a program."""
