"""A Hadamard matrix of order n − 1 (Paley's second) with a border of large excess, then rows by their cofactors."""

import numpy as np


def matrix(n):
    rng, best, most = np.random.default_rng(0), None, -np.inf
    core = paley(n - 1)
    for _ in range(300):
        found = climbed(bordered(rng, core))
        size = np.linalg.slogdet(found)[1]
        if size > most:
            best, most = found, size
    return best.astype(int)


def paley(order):
    """Of order 2 (q + 1) for a prime q = 1 modulo 4; for other orders random signs."""
    q = order // 2 - 1
    if order % 4 or q % 4 != 1 or any(q % k == 0 for k in range(2, q)):
        return np.random.default_rng(1).choice([-1.0, 1.0], (order, order))
    squares = {k * k % q for k in range(1, q)}
    conference = np.ones((q + 1, q + 1))
    conference[1:, 1:] = [[1 if (i - j) % q in squares else -1 for j in range(q)] for i in range(q)]
    np.fill_diagonal(conference, 0)
    block, diagonal = np.array([[1, 1], [1, -1]]), np.array([[1, -1], [-1, -1]])
    return np.kron(conference, block) + np.kron(np.eye(q + 1), diagonal)


def bordered(rng, core):
    """Signs for a further row and column whose product with the inverse is as large as ascent makes it."""
    row = rng.choice([-1.0, 1.0], len(core))
    for _ in range(50):
        column = np.where(core @ row < 0, -1.0, 1.0)
        row = np.where(core.T @ column < 0, -1.0, 1.0)
    return np.block([[core, column[:, None]], [-row[None, :], np.ones((1, 1))]])


def climbed(found):
    n = len(found)
    while True:
        before = np.linalg.slogdet(found)[1]
        for k in range(n):
            found[k] = np.where(np.linalg.inv(found)[:, k] < 0, -1.0, 1.0)
        for k in range(n):
            found[:, k] = np.where(np.linalg.inv(found)[k] < 0, -1.0, 1.0)
        if np.linalg.slogdet(found)[1] < before + 1e-9:
            return found
