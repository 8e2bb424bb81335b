"""The bandit's simulation as a plain function call, without worker, channel or limits, for programs you trust.

The hidden state is in the program's process. Tests compare the confined evaluation with it, bit for bit, and a
benchmark measures what confinement costs.
"""

import random
from typing import Any

import numpy as np

from atlas_gym.tasks.bandit.driver import HistoryBook, Policy, choose, seed_globals
from atlas_gym.tasks.bandit.task import BanditTask


def play_bare(program: str, task: BanditTask) -> float:
    """Score a trusted program on a task in this process; errors of the program pass through."""
    state = random.getstate(), np.random.get_state()
    seed_globals(task.program_seed)
    instances, replicas = task.drawn(), np.arange(task.replicas)
    policies: list[Policy] = []
    try:
        for _ in replicas:
            namespace: dict[str, Any] = {"__name__": "candidate", "np": np}
            exec(compile(program, "<program>", "exec"), namespace)
            policies.append(namespace[task.function])
        book = HistoryBook(task.replicas, task.horizon, task.dimension)
        choices = np.empty((task.horizon, task.replicas), dtype=np.intp)
        for t in range(task.horizon):
            choices[t] = chosen = choose(policies, instances.contexts[t], book.histories, t)
            book.record(instances.contexts[t], chosen, instances.rewards[t, replicas, chosen])
        return task.judgement(choices).score
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])
