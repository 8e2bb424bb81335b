"""Linear Thompson sampling on all of the past (Agrawal and Goyal 2013), λ 1, scale 0.2.

Plays the best arm for a θ drawn from the posterior N(θ̂, scale² A⁻¹); with scale = σ and λ = σ² that is
exact.
"""

import numpy as np

lam = 1.0
scale = 0.2
state = {}


def policy(context, history, t):
    d = context.shape[1]
    if t == 0:
        state["A"] = lam * np.eye(d)
        state["b"] = np.zeros(d)
    else:
        x, _, reward = history[-1]
        state["A"] += np.outer(x, x)
        state["b"] += reward * x
    factor = np.linalg.cholesky(state["A"])
    mean = np.linalg.solve(state["A"], state["b"])
    # With A = L Lᵀ, the vector L⁻ᵀ z has covariance A⁻¹.
    theta = mean + scale * np.linalg.solve(factor.T, np.random.standard_normal(d))
    return int(np.argmax(context @ theta))
