"""What a program knows of the past: the paper's sequence of (x, arm, reward), and the same as arrays.

Looping over tuples in Python costs seven times what array operations do, so a program is offered both.
Nothing is copied per step: the arrays are views of one buffer that the driver fills. They are read-only, so
that a program which writes into them is told so in that line instead of failing mysteriously later.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias, overload

import numpy as np

Entry: TypeAlias = "tuple[np.ndarray, int, float]"


class History(Sequence):
    """The rounds played so far, oldest first; `history[-1]` is the last, `history[-50:]` the last fifty.

    Args:
        contexts: Context vectors of the chosen arms, (capacity, d).
        arms: Indices of the chosen arms, (capacity,).
        rewards: Rewards received, (capacity,).
        length: How many rows count.
    """

    __slots__ = ("_arms", "_contexts", "_length", "_rewards")

    def __init__(self, contexts: np.ndarray, arms: np.ndarray, rewards: np.ndarray, length: int):
        self._contexts, self._arms, self._rewards = contexts, arms, rewards
        self._length = length

    @property
    def contexts(self) -> np.ndarray:
        """Context vectors of the chosen arms, (n, d), read-only."""
        return self._contexts[: self._length]

    @property
    def arms(self) -> np.ndarray:
        """Indices of the chosen arms, (n,), read-only."""
        return self._arms[: self._length]

    @property
    def rewards(self) -> np.ndarray:
        """Rewards received, (n,), read-only."""
        return self._rewards[: self._length]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> "History": ...

    def __getitem__(self, index):
        if isinstance(index, slice):
            contexts = self.contexts[index]
            return History(contexts, self.arms[index], self.rewards[index], len(contexts))
        try:
            return self.contexts[index], int(self.arms[index]), float(self.rewards[index])
        except IndexError:
            raise IndexError(f"history has {self._length} rounds; there is no history[{index}]") from None

    def __iter__(self) -> Iterator[Entry]:
        return zip(self.contexts, self.arms.tolist(), self.rewards.tolist(), strict=True)

    def __repr__(self) -> str:
        return f"<history of {self._length} rounds (x, arm, reward)>"


class HistoryBook:
    """The histories of R replicas in lockstep, written by the driver and handed to the programs.

    Args:
        replicas: R.
        horizon: Most rounds that will be recorded.
        dimension: d.
    """

    def __init__(self, replicas: int, horizon: int, dimension: int):
        # Replica first, so that each program's arrays are contiguous.
        self._contexts = np.zeros((replicas, horizon, dimension))
        self._arms = np.zeros((replicas, horizon), dtype=np.int64)
        self._rewards = np.zeros((replicas, horizon))
        self._rows = np.arange(replicas)
        self._length = 0
        columns = zip(
            _read_only(self._contexts), _read_only(self._arms), _read_only(self._rewards), strict=True
        )
        self.histories = [History(*column, length=0) for column in columns]

    def record(self, contexts: np.ndarray, arms: list[int], rewards: np.ndarray) -> None:
        """Append one round to every history: contexts (R, K, d), arms R integers, rewards (R,)."""
        t = self._length
        self._contexts[:, t] = contexts[self._rows, arms]
        self._arms[:, t] = arms
        self._rewards[:, t] = rewards
        self._length = t + 1
        for history in self.histories:
            history._length = t + 1


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
