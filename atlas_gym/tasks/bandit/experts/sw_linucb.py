"""SW-LinUCB, window 50, λ 1, α 1 (the paper's initial program)."""

import numpy as np


def policy(context, history, t):
    K, d = context.shape
    window = 50
    lam = 1.0
    alpha = 1.0
    X = history.contexts[-window:]
    y = history.rewards[-window:]
    A = lam * np.eye(d) + X.T @ X
    b = X.T @ y
    theta = np.linalg.solve(A, b)
    A_inv = np.linalg.inv(A)
    bonus = np.sqrt(np.sum(context @ A_inv * context, axis=1))
    scores = context @ theta + alpha * bonus
    return int(np.argmax(scores))
