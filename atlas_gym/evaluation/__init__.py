"""Evaluation of programs whose authors have every reason to cheat: the trusted side.

In: a program's text and a `Task`. Out: an `Evaluation`, whatever the program does; `InfrastructureError` if the
machine fails. Here live the evaluators, the pools over many of them, and the random streams that no program can
redraw. What a program must not be able to do: docs/threat-model.md.

    with EvaluatorPool(workers=2) as pool:          # or ConfinedEvaluator(), in this process;
        evaluation = pool.evaluate(program, task)   # on a cluster: evaluation.ray.RayEvaluatorPool

    trusted process                 fork server                      worker
    hidden state, clock, score      imports once, kills overdue      one program, then gone
        task.judge(channel)  <---------------- bytes ---------------->  driver.serve(load, pipe)
"""

from atlas_gym.evaluation.channel import CandidateError, Channel, ChannelClosed, Task
from atlas_gym.evaluation.evaluator import (
    ConfinedEvaluator,
    Evaluator,
    UnconfinedEvaluator,
    make_evaluator,
)
from atlas_gym.evaluation.pool import Pool, PoolStatistics, RemoteEvaluator
from atlas_gym.evaluation.processes import EvaluatorPool
from atlas_gym.evaluation.result import (
    ConfinementError,
    Evaluation,
    EvaluatorError,
    InfrastructureError,
    Judgement,
    Limits,
    Status,
)
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
    "Status",
    "Task",
    "UnconfinedEvaluator",
    "hidden_stream",
    "make_evaluator",
]
