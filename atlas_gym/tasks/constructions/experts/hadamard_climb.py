"""Rows and columns replaced by the signs of their cofactors until nothing rises, from random and shaken matrices."""

import time

import numpy as np


def matrix(n):
    began, rng, best, most = time.process_time(), np.random.default_rng(0), None, -np.inf
    while time.process_time() - began < 30:
        found = climbed(
            rng, rng.choice([-1.0, 1.0], (n, n)) if best is None or rng.random() < 0.3 else shaken(rng, best)
        )
        size = np.linalg.slogdet(found)[1]
        if size > most:
            best, most = found, size
    return best.astype(int)


def shaken(rng, found):
    found = found.copy()
    i, j = rng.integers(len(found), size=(2, rng.integers(2, 3 * len(found))))
    found[i, j] *= -1
    return found


def climbed(rng, found):
    n = len(found)
    while True:
        before = np.linalg.slogdet(found)[1]
        if not np.isfinite(before):
            found = rng.choice([-1.0, 1.0], (n, n))
            continue
        for k in rng.permutation(2 * n):
            inverse = np.linalg.inv(found)
            row = k < n
            k %= n
            cofactors = inverse[:, k] if row else inverse[k]
            signs = np.where(cofactors < 0, -1.0, 1.0)
            if np.abs(cofactors).sum() > 1 + 1e-9:
                if row:
                    found[k] = signs
                else:
                    found[:, k] = signs
        if np.linalg.slogdet(found)[1] < before + 1e-9:
            return found
