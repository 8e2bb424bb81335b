"""What a program knows of the past: the paper's sequence of (x, arm, reward), and the same as arrays.

Looping over tuples in Python costs seven times what array operations do, so a program is offered both. The arrays
are views of one buffer that the driver fills. They are read-only, so that a program which writes into them is told
so in that line instead of failing mysteriously later. Tuples are made once per round, when a program first asks for
one: whoever treats the history as a list finds it as quick as a list, and whoever keeps to the arrays pays nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

Entry: TypeAlias = "tuple[np.ndarray, int, float]"


class History(Sequence):
    """The rounds played so far, oldest first; `history[-1]` is the last, `history[-50:]` the last fifty.

    Args:
        columns: Context vectors of the chosen arms, (capacity, d), the arms' indices and the rewards, (capacity,).
        cuts: What of the rows counts, one slice of another.
        length: How many rows these are.
        entries: Those of the first rows that there are already.
    """

    __slots__ = ("_columns", "_cuts", "_entries", "_length")

    def __init__(
        self,
        columns: tuple[np.ndarray, np.ndarray, np.ndarray],
        cuts: tuple[slice, ...],
        length: int,
        entries: list[Entry],
    ):
        self._columns, self._cuts, self._length, self._entries = columns, cuts, length, entries

    @property
    def contexts(self) -> np.ndarray:
        """Context vectors of the chosen arms, (n, d), read-only."""
        return self._cut(0)

    @property
    def arms(self) -> np.ndarray:
        """Indices of the chosen arms, (n,), read-only."""
        return self._cut(1)

    @property
    def rewards(self) -> np.ndarray:
        """Rewards received, (n,), read-only."""
        return self._cut(2)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        entries = self._entries
        if len(entries) < self._length:
            self._make_entries()
        if isinstance(index, slice):
            part = entries[index]
            return History(self._columns, (*self._cuts, index), len(part), part)
        try:
            return entries[index]
        except IndexError:
            raise IndexError(f"history has {self._length} rounds; there is no history[{index}]") from None

    def __iter__(self) -> Iterator[Entry]:
        if len(self._cuts) > 1:
            return iter(self._entries)  # a slice is all there
        # Ends there, even if it is kept until there are more. A list is walked through in half of `islice`'s time.
        return iter(self[:]._entries)

    def __reversed__(self) -> Iterator[Entry]:
        return reversed(self[:]._entries)

    def __repr__(self) -> str:
        return f"<history of {self._length} rounds (x, arm, reward)>"

    def _cut(self, column: int) -> np.ndarray:
        rows = self._columns[column]
        for cut in self._cuts:
            rows = rows[cut]
        return rows

    def _make_entries(self) -> None:
        """Make those that are missing, which only a history that grows can have; a round's is made once."""
        entries = self._entries
        contexts, arms, rewards = self._columns
        for row in range(len(entries), self._length):
            entries.append((contexts[row], arms.item(row), rewards.item(row)))


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
        self.histories = [History(own, (slice(0),), 0, []) for own in columns]

    def record(self, contexts: np.ndarray, arms: list[int], rewards: np.ndarray) -> None:
        """Append one round to every history: contexts (R, K, d), arms R integers, rewards (R,)."""
        t, (_, count, dimension) = self._length, contexts.shape
        chosen = np.array(arms)
        # `contexts[rows, chosen]`, at a quarter of its cost.
        self._contexts[:, t] = contexts.reshape(-1, dimension).take(self._rows * count + chosen, axis=0)
        self._arms[:, t] = chosen
        self._rewards[:, t] = rewards
        self._length = t + 1
        cuts = (slice(t + 1),)
        for history in self.histories:
            history._length, history._cuts = t + 1, cuts


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
