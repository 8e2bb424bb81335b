"""Evaluation of programs whose authors have every reason to cheat: the trusted side.

In: a program's text and a `Task`. Out: an `Evaluation`, whatever the program does; `InfrastructureError` if the
machine fails. Here live the evaluators, the pools over many of them, and the random streams that no program can
redraw; `protocols` is the page to read first. What a program must not be able to do: docs/threat-model.md.

    with EvaluatorPool(workers=2) as pool:          # or ConfinedEvaluator(), in this process;
        evaluation = pool.evaluate(program, task)   # on a cluster: evaluation.ray.RayEvaluatorPool

    trusted process                 fork server                      worker
    hidden state, clock, score      imports once, kills overdue      one program, then gone
        task.judge(channel)  <---------------- bytes ---------------->  driver.serve(load, pipe)
"""

from atlas_gym.evaluation.channel import CandidateError, Channel, ChannelClosed
from atlas_gym.evaluation.evaluator import (
    ConfinedEvaluator,
    UnconfinedEvaluator,
    check_confinement,
    make_evaluator,
)
from atlas_gym.evaluation.pool import EvaluatorPool, core_count
from atlas_gym.evaluation.protocols import (
    ConfinementError,
    Evaluator,
    EvaluatorError,
    InfrastructureError,
    Pool,
    PoolStatistics,
    RemoteEvaluator,
    Task,
)
from atlas_gym.evaluation.result import Evaluation, Judgement, Limits, Status, limits_from
from atlas_gym.evaluation.shared import SharedEvaluator
from atlas_gym.hidden_streams import hidden_stream

__all__ = [
    "CandidateError",
    "Channel",
    "ChannelClosed",
    "ConfinedEvaluator",
    "ConfinementError",
    "Evaluation",
    "Evaluator",
    "EvaluatorError",
    "EvaluatorPool",
    "InfrastructureError",
    "Judgement",
    "Limits",
    "Pool",
    "PoolStatistics",
    "RemoteEvaluator",
    "SharedEvaluator",
    "Status",
    "Task",
    "UnconfinedEvaluator",
    "check_confinement",
    "core_count",
    "hidden_stream",
    "limits_from",
    "make_evaluator",
]
