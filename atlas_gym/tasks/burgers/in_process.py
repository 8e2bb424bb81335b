"""Training with plain function calls for losses, without worker, channel or limits, for programs you trust.

Tests compare the confined evaluation with it, and a benchmark measures what the split costs.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from atlas_gym.tasks.burgers.driver import Strategy, answer, seed_globals
from atlas_gym.tasks.burgers.network import Points
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.training import Training, train


class LocalLosses:
    """Losses from functions in this process, one per replica. See `training.Losses`."""

    def __init__(self, strategies: Sequence[Strategy], params: BurgersParams):
        self._strategies = strategies
        self._sizes = [params.n_residual, params.n_initial, params.n_boundary]
        self._n_epochs = params.steps
        self._constants: list[dict[str, Any]] = []

    def begin(self, points: Sequence[Points]) -> None:
        names = ("x", "t", "nu")
        self._constants = [{name: torch.tensor(getattr(p, name)) for name in names} for p in points]

    def ask(self, replica: int, epoch: int, vectors: np.ndarray) -> np.ndarray:
        extras = {"epoch": epoch, "n_epochs": self._n_epochs, **self._constants[replica]}
        return np.frombuffer(answer(self._strategies[replica], bytearray(vectors), self._sizes, extras))


def train_in_process(
    params: BurgersParams, points: Points, theta: np.ndarray, strategy: Strategy
) -> np.ndarray:
    """Train one network from theta with a loss function; the loss of every step."""
    alone = replace(params, replicas=1)
    with as_in_a_worker(seed=0):
        return train(alone, Training(alone, [points], [theta]), LocalLosses([strategy], alone))[:, 0]


@contextmanager
def as_in_a_worker(seed: int) -> Iterator[None]:
    """Give the program the default type and the random numbers that the driver gives it, then restore
    both."""
    kept = torch.get_default_dtype(), torch.get_rng_state(), random.getstate(), np.random.get_state()
    torch.set_default_dtype(torch.float64)
    seed_globals(seed)
    try:
        yield
    finally:
        torch.set_default_dtype(kept[0])
        torch.set_rng_state(kept[1])
        random.setstate(kept[2])
        np.random.set_state(kept[3])
