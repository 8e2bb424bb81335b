# ruff: noqa
# fmt: off
# As a model wrote it.
import numpy as np


def policy(context, history, t):
    K, d = context.shape
    X = 2. * history.contexts[-50:] * (0.9 ** np.arange(len(history.contexts[-50:]))[::-1])[:, None]
    y = history.rewards[-50:] * 0.91 ** np.arange(len(history.rewards[-50:]))[::-1]
    A = 0.72 * np.eye(d) + X[-16:].T @ X[-16:]
    b = X[-20:].T @ (y[-20:] * 0.98 ** np.arange(len(y[-20:]))[::-1])
    theta = np.linalg.solve(A, b)
    A_inv = np.linalg.inv(A)
    bonus = 0.06 * np.sqrt(np.sum(context @ A_inv * context, axis=1))
    scores = context @ theta + 1.0 * bonus
    return int(np.argmax(scores))
