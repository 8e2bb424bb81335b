"""SW-LinUCB, tuned: window 11, λ 0.5, α 0.1."""

import numpy as np


def policy(context, history, t):
    K, d = context.shape
    window = 11
    lam = 0.5
    alpha = 0.1
    X = history.contexts[-window:]
    y = history.rewards[-window:]
    A = lam * np.eye(d) + X.T @ X
    b = X.T @ y
    theta = np.linalg.solve(A, b)
    A_inv = np.linalg.inv(A)
    bonus = np.sqrt(np.sum(context @ A_inv * context, axis=1))
    scores = context @ theta + alpha * bonus
    return int(np.argmax(scores))
