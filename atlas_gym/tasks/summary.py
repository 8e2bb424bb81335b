"""The results on all instances of a task as one judgement."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.evaluation.result import Judgement

_SHOWN = 8
"""As many instances' scores are told in the feedback."""


def summary(results: Sequence[float | Judgement], floor: float, metrics: Sequence[str]) -> Judgement:
    """The mean score of the instances, each at least the floor, with the means of these metrics.

    Traces and diagnosis are those of the worst instance; the trace `scores` has all scores. Raises CandidateError for
    a score that is not finite, TypeError for one that is no number, ValueError where a metric is missing.
    """
    judged = [r if isinstance(r, Judgement) else Judgement(r) for r in results]
    scores = np.array([_number(judgement.score) for judgement in judged])
    if not np.isfinite(scores).all():
        number = int(np.isfinite(scores).argmin())
        raise CandidateError(
            f"its score on instance {number} is {scores[number]}, which is not a finite number"
        )
    scores = np.maximum(scores, floor) + 0.0  # no minus zero
    score, worst = float(scores.mean()), judged[int(scores.argmin())]
    means = {"normalized_score": 1.0 - score / floor}
    for name in metrics:
        if any(name not in judgement.metrics for judgement in judged):
            raise ValueError(f"score gives no {name}, which is among the task's metrics")
        means[name] = float(
            np.mean([_number(judgement.metrics[name], f"metric {name}") for judgement in judged])
        )
    diagnosis = worst.diagnosis
    if len(scores) > 1:
        shown = ", ".join(f"{s:.4f}" for s in scores[:_SHOWN]) + (", …" if len(scores) > _SHOWN else "")
        told = f" On the worst: {diagnosis}" if diagnosis else ""
        diagnosis = f"Scores by instance: {shown}.{told}"
    return Judgement(score, means, diagnosis, {"scores": scores, **worst.traces})


def _number(value: Any, what: str = "score") -> float:
    try:
        if np.iscomplexobj(value):
            raise TypeError("numpy would take the real part")
        return float(value + 0)  # a text of digits is none
    except (TypeError, ValueError):
        lack = f"{what} is of type {type(value).__name__}; return a number, of an answer its .number()"
        raise TypeError(f"{lack}; several go into an atlas_gym.Judgement") from None
