"""D-LinUCB (Russac et al. 2019): exponential forgetting γ 0.8, λ 0.1, α 0.1 (tuned), two matrices.

V weights a round of age s by γ^s, W by γ^2s; the bonus is the length of x under V⁻¹ W V⁻¹, the covariance of
the weighted estimate. The ridge λ is not forgotten.
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
        state["W"] = lam * np.eye(d)
        state["b"] = np.zeros(d)
    else:
        x, _, reward = history[-1]
        outer = np.outer(x, x)
        state["V"] = gamma * state["V"] + outer + (1 - gamma) * lam * np.eye(d)
        state["W"] = gamma**2 * state["W"] + outer + (1 - gamma**2) * lam * np.eye(d)
        state["b"] = gamma * state["b"] + reward * x
    V_inv = np.linalg.inv(state["V"])
    theta = V_inv @ state["b"]
    covariance = V_inv @ state["W"] @ V_inv
    bonus = np.sqrt(np.sum(context @ covariance * context, axis=1))
    return int(np.argmax(context @ theta + alpha * bonus))
