"""A whole Burgers evaluation as plain function calls, without worker, channel or limits."""

from typing import Any

import numpy as np
import torch

from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.burgers.in_process import LocalLosses, as_in_a_worker
from atlas_gym.tasks.burgers.task import BurgersTask

NAMES = {"__name__": "candidate", "np": np, "torch": torch, "F": torch.nn.functional}


def judge_in_process(program: str, task: BurgersTask) -> Judgement:
    """Score a trusted program on a task in this process; errors of the program pass through."""
    namespaces: list[dict[str, Any]] = [dict(NAMES) for _ in range(task.replicas)]
    with as_in_a_worker(task.program_seed):
        for namespace in namespaces:
            exec(compile(program, "<program>", "exec"), namespace)
        strategies = [namespace[task.function] for namespace in namespaces]
        return task.judgement(LocalLosses(strategies, task))
