# ruff: noqa
# As a model wrote it.
import numpy as np


def policy(context, history, t):
    K, d = context.shape
    X = history.contexts[-50:] * (0.93 ** np.arange(len(history.contexts[-50:]))[::-1])[:, None]
    y = history.rewards[-50:] - 0.160
    A = np.eye(d) + X.T @ X
    b = X.T @ (y * 0.930 ** np.arange(len(X))[::-1])
    theta = np.linalg.solve(A, b)
    A_inv = np.linalg.inv(A)
    bonus = np.sqrt(np.sum(context @ A_inv * context, axis=1))
    scores = context @ theta + 0.02 * 0.95
    return int(np.argmax(scores))
