"""Weighted LinUCB with one matrix (Wang et al. 2023): forgetting γ 0.8, λ 0.1, α 0.1 (tuned).

As D-LinUCB, but the bonus is the length of x under V⁻¹ alone.
"""

import numpy as np

gamma = 0.8
lam = 0.1
alpha = 0.1
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
