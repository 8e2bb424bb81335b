"""The candidate's side of a bandit evaluation: plays all replicas in lockstep inside the worker.

Per step one message comes in (the rewards of the last step and the contexts of this one, for all replicas) and one
byte per replica goes out. Nothing here is trusted: a program could replace any of it, and would gain the right to send
other arms. The checks give honest mistakes a useful message.

A program's history is the paper's sequence of (x, arm, reward), and the same as arrays: looping over tuples costs seven
times what array operations do. The arrays are read-only views of one buffer that the driver fills; tuples are made once
per round, when a program first asks for one.
"""

import operator
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

HEADER = struct.Struct("<5I")
"""Replicas, arms, dimension, horizon, and the seed of the global random generators that programs may use."""
LOADED = b"\1"
"""Sent once the program is loaded in every replica."""

Entry: TypeAlias = "tuple[np.ndarray, int, float]"


class History(Sequence):
    """The rounds played so far, oldest first; `history[-1]` is the last, `history[-50:]` the last fifty.

    Args:
        columns: Context vectors of the chosen arms, (capacity, d), the arms' indices and the rewards, (capacity,).
        length: How many of their rows count, from the first on.
        entries: Those of the first rows that there are already.
    """

    __slots__ = ("_columns", "_entries", "_length")

    def __init__(self, columns: tuple[np.ndarray, ...], length: int, entries: list[Entry]):
        self._columns, self._length, self._entries = columns, length, entries

    @property
    def contexts(self) -> np.ndarray:
        """Context vectors of the chosen arms, (n, d), read-only."""
        return self._columns[0][: self._length]

    @property
    def arms(self) -> np.ndarray:
        """Indices of the chosen arms, (n,), read-only."""
        return self._columns[1][: self._length]

    @property
    def rewards(self) -> np.ndarray:
        """Rewards received, (n,), read-only."""
        return self._columns[2][: self._length]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        entries = self._all_entries()
        if isinstance(index, slice):
            part = entries[index]
            return History(tuple(column[: self._length][index] for column in self._columns), len(part), part)
        try:
            return entries[index]
        except IndexError:
            raise IndexError(f"history has {self._length} rounds; there is no history[{index}]") from None

    def __iter__(self) -> Iterator[Entry]:
        # Ends there, even if it is kept until there are more. A list is walked through in half of `islice`'s time.
        return iter(self._all_entries()[:])

    def __reversed__(self) -> Iterator[Entry]:
        return reversed(self._all_entries()[:])

    def __add__(self, other: Any) -> list[Any]:
        return self.copy() + list(other)

    def __radd__(self, other: Any) -> list[Any]:
        return list(other) + self.copy()

    def __mul__(self, times: int) -> list[Any]:
        return self.copy() * times

    __rmul__ = __mul__

    def copy(self) -> list[Entry]:
        """The rounds as a list of its own."""
        return self._all_entries()[:]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The rounds as rows, (n, 3), of objects."""
        return np.asarray(self.copy(), dtype=dtype or object)

    def __repr__(self) -> str:
        return f"<history of {self._length} rounds (x, arm, reward)>"

    def _all_entries(self) -> list[Entry]:
        """All tuples, those that are missing made now."""
        entries = self._entries
        if len(entries) < self._length:
            contexts, arms, rewards = self._columns
            for row in range(len(entries), self._length):
                entries.append((contexts[row], arms.item(row), rewards.item(row)))
        return entries


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
        views = [array.view() for array in (self._contexts, self._arms, self._rewards)]
        for view in views:
            view.flags.writeable = False
        self.histories = [History(own, 0, []) for own in zip(*views, strict=True)]

    def record(self, contexts: np.ndarray, arms: list[int], rewards: np.ndarray) -> None:
        """Append one round to every history: contexts (R, K, d), arms R integers, rewards (R,)."""
        t, (_, count, dimension) = self._length, contexts.shape
        chosen = np.array(arms)
        # `contexts[rows, chosen]`, at a quarter of its cost.
        self._contexts[:, t] = contexts.reshape(-1, dimension).take(self._rows * count + chosen, axis=0)
        self._arms[:, t] = chosen
        self._rewards[:, t] = rewards
        self._length = t + 1
        for history in self.histories:
            history._length = t + 1


Policy = Callable[[np.ndarray, History, int], Any]


def serve(load: Callable[[], Policy], pipe: Any) -> None:
    """Load the program once per replica, then answer every message with one arm per replica."""
    replicas, arms, dimension, horizon, seed = HEADER.unpack(pipe.receive(HEADER.size))
    seed_globals(seed)
    policies = [load() for _ in range(replicas)]
    pipe.send(LOADED)
    book = HistoryBook(replicas, horizon, dimension)
    size = 8 * replicas * (1 + arms * dimension)
    contexts, chosen = np.zeros((replicas, arms, dimension)), [0] * replicas
    for t in range(horizon):
        message = np.frombuffer(pipe.receive(size))
        if t:
            book.record(contexts, chosen, message[:replicas])
        contexts = message[replicas:].reshape(replicas, arms, dimension)
        chosen = choose(policies, contexts, book.histories, t)
        pipe.send(bytes(chosen))


def seed_globals(seed: int) -> None:
    """Seed `random` and `np.random`, so that a program which uses them scores the same every time."""
    random.seed(seed)
    np.random.seed(seed)


def choose(policies: list[Policy], contexts: np.ndarray, histories: list[History], t: int) -> list[int]:
    """Every replica's arm at contexts (R, K, d), which are copied first: a program may write into its own.

    NumPy integers and arrays of one integer count as arms; truth values and floats do not.
    """
    arms = contexts.shape[1]
    chosen = []
    for policy, context, history in zip(policies, contexts.copy(), histories, strict=True):
        arm = policy(context, history, t)
        if type(arm) is not int:
            arm = _as_int(arm)
        if type(arm) is not int or not 0 <= arm < arms:
            shown = f"{arm}" if isinstance(arm, int | float) else f"a {type(arm).__name__}"
            missing = " (is a return statement missing?)" if arm is None else ""
            wanted = f"return an integer from 0 to {arms - 1}, e.g. int(np.argmax(scores))"
            raise ValueError(
                f"policy returned {'None' if arm is None else shown} at step {t}{missing}; {wanted}"
            )
        chosen.append(arm)
    return chosen


def _as_int(value: Any) -> Any:
    """An int where a value is an integer of another kind."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(()).item()
    if isinstance(value, bool | np.bool_):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value
