"""The 604 of EinsteinArena and Station (2026): quadruples, and pairs of axes with a turned cross of √2's."""

from itertools import combinations, product

import numpy as np

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
CROSS = np.array([(2, 1, 2), (2, -2, -1), (1, 2, -2)])


def vectors(dimension):
    found = []
    for axis in range(8):
        found += [whole({axis: 6 * sign}) for sign in (1, -1)]
    for block in blocks():
        found += [whole(dict(zip(block, signs))) for signs in product((3, -3), repeat=4)]
    for pair, signs, arm, turn in product(PAIRS, product((3, -3), repeat=2), CROSS, (1, -1)):
        found.append(whole(dict(zip(pair, signs)), turn * arm))
    for (one, two), a, b in product(combinations(CROSS, 2), (1, -1), (1, -1)):
        found.append(whole({}, a * one + b * two))
    return np.array(found)


def whole(entries, roots=(0, 0, 0)):
    """A vector of p + q √2, the roots in its last three entries."""
    vector = np.zeros((11, 2), dtype=int)
    for axis, value in entries.items():
        vector[axis, 0] = value
    vector[8:, 1] = roots
    return vector


def blocks():
    """The unions of two pairs, and three disjoint systems of triples across pairs, one for each of the last axes."""
    systems = []
    for signs in product(product((0, 1), repeat=2), repeat=4):
        triples = set()
        for missing, (a, b) in enumerate(signs):
            groups = [pair for k, pair in enumerate(PAIRS) if k != missing]
            for flip in (0, 1):
                triples.add(tuple(group[s ^ flip] for group, s in zip(groups, (0, a, b))))
        covered = {pair for triple in triples for pair in combinations(triple, 2)}
        if len(covered) == 24:
            systems.append(triples)
    three = next(s for s in combinations(systems, 3) if len(set.union(*s)) == 24)
    unions = [p + q for p, q in combinations(PAIRS, 2)]
    return unions + [(*triple, 8 + k) for k, system in enumerate(three) for triple in system]
