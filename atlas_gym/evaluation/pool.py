"""Many evaluations at a time on this machine: a scheduler over evaluator processes, one to a core.

The caller's process only queues and collects: its interpreter lock is never inside a step loop. A program
that hangs holds one evaluator until its own limit and no other.
"""

import os
from collections.abc import Sequence
from functools import partial

from atlas_gym.evaluation.evaluator import check_confinement
from atlas_gym.evaluation.local import LocalEvaluator
from atlas_gym.evaluation.scheduler import Scheduler


class EvaluatorPool(Scheduler):
    """Evaluates programs on several cores of this machine.

    Example:
        with EvaluatorPool(workers=2) as pool:
            evaluations = pool.map(programs, task)
    """

    def __init__(self, workers: int = 2, *, confinement: str | Sequence[str] = "default") -> None:
        """Start the evaluator processes; they import in the background.

        Args:
            workers: Evaluations at a time (>= 1). Each keeps to one core, as far as there are cores.
            confinement: As for `make_evaluator`; whether the machine gives it shows at the first evaluation.
        """
        check_confinement(confinement)
        cores = usable_cores() or [-1]
        super().__init__(
            [partial(LocalEvaluator, cores[i % len(cores)], confinement) for i in range(workers)]
        )


def usable_cores() -> list[int]:
    """The cores that this process may use; empty where the system keeps no process to cores (macOS, Windows)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def core_count() -> int:
    """How many evaluations this process can usefully run at a time."""
    return len(usable_cores()) or os.cpu_count() or 1
