"""SW-LinUCB as before, its constants written into the formulas."""

import numpy as np


def policy(context, history, t):
    K, d = context.shape
    X = history.contexts[-50:]
    y = history.rewards[-50:]
    A = np.eye(d) + X.T @ X
    b = X.T @ y
    theta = np.linalg.solve(A, b)
    A_inv = np.linalg.inv(A)
    bonus = np.sqrt(np.sum(context @ A_inv * context, axis=1))
    scores = context @ theta + 1.0 * bonus
    return int(np.argmax(scores))
