"""dLinUCB (Wu et al. 2018): a set of LinUCB models, replaced when their predictions go wrong.

The master plays the model whose recent error rate has the lowest confidence bound. A model errs where the
reward lies outside its confidence interval, and learns only from rounds where it does not; one that errs too
often is dropped, and a fresh one is made when none is good enough.
"""

import numpy as np

lam = 0.5
alpha = 0.5
window = 12
noise_bound = 0.45
good = 0.05
bad = 0.1
slack = 0.1
most = 8
models = []
played = {}


def policy(context, history, t):
    if t == 0:
        models[:] = [fresh(context.shape[1])]
    else:
        x, _, reward = history[-1]
        learn(x, reward)
    best = min(models, key=lambda model: error_rate(model) - confidence(model))
    played["model"] = best
    A_inv = np.linalg.inv(best["A"])
    bonus = np.sqrt(np.sum(context @ A_inv * context, axis=1))
    return int(np.argmax(context @ (A_inv @ best["b"]) + alpha * bonus))


def fresh(d):
    return {"A": lam * np.eye(d), "b": np.zeros(d), "errors": []}


def learn(x, reward):
    for model in models:
        A_inv_x = np.linalg.solve(model["A"], x)
        width = alpha * np.sqrt(x @ A_inv_x) + noise_bound
        wrong = abs(A_inv_x @ model["b"] - reward) > width
        model["errors"] = (model["errors"] + [bool(wrong)])[-window:]
        if not wrong:
            model["A"] += np.outer(x, x)
            model["b"] += reward * x
    models[:] = [model for model in models if error_rate(model) < bad + confidence(model)][-most:]
    if not any(error_rate(model) < good + confidence(model) for model in models):
        models.append(fresh(len(x)))


def error_rate(model):
    return np.mean(model["errors"]) if model["errors"] else 0.0


def confidence(model):
    return slack / np.sqrt(max(1, len(model["errors"])))
