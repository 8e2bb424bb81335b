"""The candidate's side of a bandit evaluation: plays all replicas in lockstep inside the worker.

Per step one message comes in (the rewards of the last step and the contexts of this one, for all replicas)
and one byte per replica goes out. Nothing here is trusted: a program could replace any of it, and would gain
the right to send other arms. What is checked here is checked to give an honest mistake a useful message; the
other side counts.
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
    """Ask every replica's program for its arm.

    Contexts (R, K, d) are copied first: a program may write into its own.
    """
    arms = contexts.shape[1]
    chosen = []
    for policy, context, history in zip(policies, contexts.copy(), histories, strict=True):
        arm = policy(context, history, t)
        if type(arm) is not int:
            arm = as_arm(arm, arms, t)
        if not 0 <= arm < arms:
            raise ValueError(f"policy returned {arm} at step {t}; {_EXPECTED.format(arms - 1)}")
        chosen.append(arm)
    return chosen


_EXPECTED = "return an integer from 0 to {}, e.g. int(np.argmax(scores))"


def as_arm(value: Any, arms: int, t: int) -> int:
    """Turn what a policy returned into an int, or say what is wrong with it.

    NumPy integers and arrays of one integer count; truth values and floats, NaN among them, do not.
    """
    expected = _EXPECTED.format(arms - 1)
    if value is None:
        raise TypeError(f"policy returned None at step {t} (is a return statement missing?); {expected}")
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(()).item()
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"policy returned the truth value {value} at step {t}; {expected}")
    try:
        return operator.index(value)
    except TypeError:
        shown = f"{value}" if isinstance(value, float) else f"a {type(value).__name__}"
        raise TypeError(f"policy returned {shown} at step {t}; {expected}") from None
