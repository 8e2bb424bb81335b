"""The candidate's side of a bandit evaluation: plays all replicas in lockstep inside the worker.

Per step one message comes in (the rewards of the last step and the contexts of this one, for all replicas) and one
byte per replica goes out. Nothing here is trusted: a program could replace any of it, and would gain the right to send
other arms. The checks give honest mistakes a useful message.
"""

import operator
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from atlas_gym.tasks.bandit.history import History, HistoryBook

HEADER = struct.Struct("<5I")
"""Replicas, arms, dimension, horizon, and the seed of the global random generators that programs may use."""
LOADED = b"\1"
"""Sent once the program is loaded in every replica."""

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
