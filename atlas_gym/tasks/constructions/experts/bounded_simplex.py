"""Vectors of small entries with a bounded sum, read as digits (Gyarmati, Hennecart and Ruzsa 2007, Gerbicz 2025)."""

import math

import numpy as np


def integers():
    shapes = [
        (theta(length, total, bound), length, total, bound)
        for bound in (1, 2, 3, 4)
        for length in range(2, int(62 * math.log(2) / math.log(2 * bound + 1)))
        for total in range(1, length * bound + 1)
        if 2 <= sum(counts(length, bound)[: total + 1]) <= 4000
    ]
    _, length, total, bound = max(shapes)
    vectors = np.zeros((1, 0), dtype=np.int64)
    for _ in range(length):
        vectors = np.concatenate(
            [np.column_stack([vectors, np.full(len(vectors), k)]) for k in range(bound + 1)]
        )
        vectors = vectors[vectors.sum(axis=1) <= total]
    return vectors @ (2 * bound + 1) ** np.arange(length)


def counts(length, bound):
    """How many vectors of whole numbers from 0 to a bound have each sum."""
    found = [1]
    for _ in range(length):
        found = [sum(found[max(0, s - bound) : s + 1]) for s in range(len(found) + bound)]
    return found


def theta(length, total, bound):
    """Of all vectors with a sum of at most `total`, from how many sums and differences they have."""
    sums = sum(counts(length, 2 * bound)[: 2 * total + 1])
    differences = 0
    for positive in range(length + 1):
        for negative in range(length - positive + 1):
            ways = math.comb(length, positive) * math.comb(length - positive, negative)
            parts = [sum(counts(k, bound - 1)[: max(0, total - k + 1)]) for k in (positive, negative)]
            differences += ways * parts[0] * parts[1]
    largest, left = 0, total
    for place in reversed(range(length)):
        largest += min(bound, left) * (2 * bound + 1) ** place
        left -= min(bound, left)
    return 1 + math.log(differences / sums) / math.log(2 * largest + 1)
