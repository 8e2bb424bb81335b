"""Uniformly random play."""

import numpy as np


def policy(context, history, t):
    return int(np.random.randint(len(context)))
