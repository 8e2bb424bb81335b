"""Evaluation of programs whose authors have every reason to cheat: the trusted side.

A program's text and a `Task` go in; an `Evaluation` comes out, whatever the program does, or an `InfrastructureError`
if the machine fails. What a program must not be able to do: docs/threat-model.md.

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
from atlas_gym.evaluation.pool import Pool, RemoteEvaluator
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
    "RemoteEvaluator",
    "Status",
    "Task",
    "UnconfinedEvaluator",
    "hidden_stream",
    "make_evaluator",
]
