"""Kalman tracker: θ as a random walk of 0.2 per step, observed with noise 0.2; plays greedily.

A step of length s on the unit sphere is a rotation by φ = 2 asin(s/2) in a random direction. To second
moments it is θ' = cos φ · θ + w with cov(w) = (1 − cos² φ)/d · I, a linear system that the Kalman filter
tracks.
"""

import numpy as np

step = 0.2
noise = 0.2
state = {}


def policy(context, history, t):
    d = context.shape[1]
    if t == 0:
        state["mean"] = np.zeros(d)
        state["P"] = np.eye(d) / d
    else:
        x, _, reward = history[-1]
        predict(*correct(state["mean"], state["P"], x, reward))
    return int(np.argmax(context @ state["mean"]))


def correct(mean, P, x, reward):
    Px = P @ x
    gain = Px / (x @ Px + noise**2)
    return mean + gain * (reward - x @ mean), P - np.outer(gain, Px)


def predict(mean, P):
    keep = np.cos(2 * np.arcsin(step / 2))
    d = len(mean)
    state["mean"] = keep * mean
    state["P"] = keep**2 * P + (1 - keep**2) / d * np.eye(d)
