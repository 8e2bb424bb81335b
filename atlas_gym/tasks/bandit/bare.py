"""The same simulation as a plain function call, without worker, channel or limits.

Only for programs you trust: the hidden state is in the same process as the program. Tests compare the
confined evaluation with it, bit for bit, and the benchmark measures what confinement costs.
"""

import random
from typing import Any

import numpy as np

from atlas_gym.tasks.bandit.driver import Policy, choose, seed_globals
from atlas_gym.tasks.bandit.history import HistoryBook
from atlas_gym.tasks.bandit.task import BanditTask


def play_bare(program: str, task: BanditTask) -> float:
    """Score a trusted program on a task in this process; errors of the program pass through."""
    state = random.getstate(), np.random.get_state()
    seed_globals(task.program_seed)
    try:
        policies = [_load(program, task.function) for _ in range(task.replicas)]
        return task.judgement(_play(policies, task)).score
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])


def _play(policies: list[Policy], task: BanditTask) -> np.ndarray:
    """The arms that the policies choose, (T, R)."""
    instances, replicas = task.drawn(), np.arange(task.replicas)
    book = HistoryBook(task.replicas, task.horizon, task.dimension)
    choices = np.empty((task.horizon, task.replicas), dtype=np.intp)
    for t in range(task.horizon):
        choices[t] = chosen = choose(policies, instances.contexts[t], book.histories, t)
        book.record(instances.contexts[t], chosen, instances.rewards[t, replicas, chosen])
    return choices


def _load(program: str, function: str) -> Policy:
    namespace: dict[str, Any] = {"__name__": "candidate", "np": np}
    exec(compile(program, "<program>", "exec"), namespace)
    return namespace[function]
