"""The processes of a distributed phase, as far as our own code has to know of them.

Without `torch.distributed` there is one process, rank 0 of 1, and everything here does nothing.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import distributed

T = TypeVar("T")


def rank() -> int:
    """This process's number."""
    return distributed.get_rank() if _started() else 0


def size() -> int:
    """How many processes there are."""
    return distributed.get_world_size() if _started() else 1


def share(items: Sequence[T]) -> Sequence[T]:
    """Every size()-th item: each process has its own, together they have all."""
    return items[rank() :: size()] if size() > 1 else items


def totals(values: Sequence[float], device: torch.device) -> list[float]:
    """Sum of each value over the processes, the same everywhere. `device`: where the backend can add."""
    if size() == 1:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(summed)
    return list(summed.tolist())


def _started() -> bool:
    return distributed.is_available() and distributed.is_initialized()
