"""Random streams derived from labels instead of saved state: ``stream(run_seed, purpose, round, island, ...)``.

A run that was killed and resumed makes the same decisions without any generator state having been stored, and another
consumer of randomness does not shift the draws of the others.
"""

import hashlib

import numpy as np


def _sequence(seed: int, labels: tuple[str | int, ...]) -> np.random.SeedSequence:
    # repr() keeps the label 1 apart from "1"; the separator keeps ("ab", "c") apart from ("a", "bc").
    text = "\x1f".join(repr(label) for label in (seed, *labels))
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.SeedSequence(np.frombuffer(digest, dtype="<u4").tolist())


def stream(seed: int, *labels: str | int) -> np.random.Generator:
    """Random generator that belongs to ``labels`` under the run's ``seed``; equal labels give equal draws."""
    return np.random.default_rng(_sequence(seed, labels))


def torch_seed(seed: int, *labels: str | int) -> int:
    """Seed in [0, 2**63) for a ``torch.Generator``, derived like :func:`stream`."""
    return int(_sequence(seed, labels).generate_state(1, np.uint64)[0] >> np.uint64(1))
