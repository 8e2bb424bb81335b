"""Evaluation of programs whose authors have every reason to cheat."""

from atlas_gym.evaluation.channel import CandidateError, Channel, ChannelClosed
from atlas_gym.evaluation.evaluator import ConfinedEvaluator, Evaluator, UnconfinedEvaluator, make_evaluator
from atlas_gym.evaluation.pool import EvaluatorPool
from atlas_gym.evaluation.result import Evaluation, Judgement, Limits, Status
from atlas_gym.evaluation.streams import hidden_stream
from atlas_gym.evaluation.task import Task
from atlas_gym.evaluation.workers import ConfinementError, EvaluatorError

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
    "Judgement",
    "Limits",
    "Status",
    "Task",
    "UnconfinedEvaluator",
    "hidden_stream",
    "make_evaluator",
]
