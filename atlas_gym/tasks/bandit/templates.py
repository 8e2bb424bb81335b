"""Bandit programs with numbers left open.

Bounds are wide, and their middle (coordinates 0) is a program to start from, not a solution: for SW-LinUCB
exactly the paper's initial program. A search that stands still shows nothing.
"""

from atlas_gym.tasks.bandit import experts
from atlas_gym.tasks.experts import without_docstring
from atlas_gym.tasks.given_programs import as_expert, opened
from atlas_gym.tasks.parameter import Parameter
from atlas_gym.tasks.template import Template

SW_LINUCB = opened(
    as_expert(without_docstring(experts.__name__, "sw_linucb"), "sw_linucb"),
    Parameter("window", 5, 500, integer=True),
    Parameter("lam", 0.01, 100.0),
    Parameter("alpha", 0.01, 100.0),
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
    (Parameter("forgetting", 0.001, 0.9), Parameter("lam", 0.01, 100.0), Parameter("alpha", 0.01, 100.0)),
)
"""LinUCB in which a step of age s counts (1 - forgetting)^s."""
