"""No learning: always the first arm (the from-scratch start)."""

import numpy as np


def policy(context, history, t):
    K, d = context.shape
    theta = np.zeros(d)
    scores = context @ theta
    return int(np.argmax(scores))
