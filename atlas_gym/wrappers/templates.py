"""The templates that come with the environments.

Bounds are wide, and their middle (coordinates 0) is a program to start from, not a solution: for SW-LinUCB
exactly the paper's initial program. A search that stands still shows nothing.
"""

from atlas_gym.tasks.parameter import Parameter
from atlas_gym.tasks.registration import REGISTERED
from atlas_gym.tasks.template import Template

SW_LINUCB = Template(
    "sw_linucb",
    """\
import numpy as np


def policy(context, history, t):
    K, d = context.shape
    window = $window
    lam = $lam
    alpha = $alpha
    X = history.contexts[-window:]
    y = history.rewards[-window:]
    A = lam * np.eye(d) + X.T @ X
    b = X.T @ y
    theta = np.linalg.solve(A, b)
    A_inv = np.linalg.inv(A)
    bonus = np.sqrt(np.sum(context @ A_inv * context, axis=1))
    scores = context @ theta + alpha * bonus
    return int(np.argmax(scores))
""",
    (
        Parameter("window", 5, 500, integer=True),
        Parameter("lam", 0.01, 100.0),
        Parameter("alpha", 0.01, 100.0),
    ),
)
"""LinUCB on the last `window` steps."""

DISCOUNTED_LINUCB = Template(
    "discounted_linucb",
    """\
import numpy as np

gamma = 1.0 - $forgetting
lam = $lam
alpha = $alpha
state = {}


def policy(context, history, t):
    d = context.shape[1]
    if t == 0:
        state["V"] = lam * np.eye(d)
        state["b"] = np.zeros(d)
    else:
        x, _, reward = history[-1]
        state["V"] = gamma * state["V"] + np.outer(x, x) + (1 - gamma) * lam * np.eye(d)
        state["b"] = gamma * state["b"] + reward * x
    V_inv = np.linalg.inv(state["V"])
    theta = V_inv @ state["b"]
    bonus = np.sqrt(np.sum(context @ V_inv * context, axis=1))
    return int(np.argmax(context @ theta + alpha * bonus))
""",
    (
        Parameter("forgetting", 0.001, 0.9),
        Parameter("lam", 0.01, 100.0),
        Parameter("alpha", 0.01, 100.0),
    ),
)
"""LinUCB in which a step of age s counts (1 - forgetting)^s."""

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

_SHIPPED = {
    "ATLAS-Bandit-v0": (SW_LINUCB, DISCOUNTED_LINUCB),
    "ATLAS-Burgers-v0": (LOSS_WEIGHTS,),
}


def template_names(env_id: str) -> tuple[str, ...]:
    """Names of an environment's templates, the default first; ValueError for an unknown environment."""
    if env_id not in _SHIPPED:
        known = ", ".join(entry.env_id for entry in REGISTERED)
        raise ValueError(f"no templates for {env_id!r}; there are for {known}")
    return tuple(template.name for template in _SHIPPED[env_id])


def load_template(env_id: str, name: str) -> Template:
    """An environment's template by name; ValueError if it has none of that name."""
    names = template_names(env_id)
    if name not in names:
        raise ValueError(f"no template {name!r} for {env_id}; there are {', '.join(names)}")
    return _SHIPPED[env_id][names.index(name)]


def default_template(env_id: str) -> Template:
    """The template that `TemplateAction` uses unless told otherwise."""
    return load_template(env_id, template_names(env_id)[0])
