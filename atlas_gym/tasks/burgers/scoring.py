"""Scores of trained networks: minus one of three metrics, cut off at -10.

| metric | definition | can a program game it? |
|---|---|---|
| `relative_l2` | distance from the reference solution, relative to its norm, on a grid | not by its loss's value |
| `residual` | mean squares of the three errors at held-out points, added | hardly |
| `nvl` | the program's own loss at held-out points (the paper's) | yes: `0 * residuals.mean()` |

`relative_l2` can be lowered by other means than weighting the loss: a program may solve the equation and return a loss
with the gradient of the supervised one (`experts/knows_the_answer.py`; docs/burgers.md, "Knowing the answer").
`normalized_score` is 1 - relative_l2 whatever the metric: 0 is as good as u = 0, a plain 1/1/1 loss reaches 0.7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.burgers.reference import GRID_X

WORST_METRIC = 10.0
"""Metrics count up to here; the reward of a program that failed lies below minus this."""

TERMS = {"residual_term": "residual", "initial_term": "initial", "boundary_term": "boundary"}
"""The metrics of the three errors, and what they are called in words."""
_SHOCK = 0.1
"""Half the width of the strip around x = 0 that is called the shock."""
_THIRDS = ("first", "second", "last")


@dataclass(frozen=True)
class Outcome:
    """One trained network, measured."""

    u: np.ndarray  # its solution on GRID_T x GRID_X
    terms: np.ndarray  # mean squares of residuals, initial and boundary errors at the held-out points, (3,)
    own_loss: float  # the program's loss there


def relative_l2(u: np.ndarray, exact: np.ndarray) -> float:
    """Euclidean norm of the error over that of the exact solution; 1 for u = 0."""
    # Not np.linalg.norm: over a matrix it is BLAS's, whose rounding depends on the number of threads.
    return float(np.sqrt(np.sum(np.square(u - exact)) / np.sum(np.square(exact))))


def judgement(outcomes: Sequence[Outcome], history: np.ndarray, exact: np.ndarray, metric: str) -> Judgement:
    """Average over the replicas, choose the score, and describe what was wrong.

    The metrics of the worst and the best replica are relative L2 errors, all others means over replicas.
    """
    errors = np.array([relative_l2(outcome.u, exact) for outcome in outcomes])
    terms = np.mean([outcome.terms for outcome in outcomes], axis=0)
    metrics = {
        "relative_l2": float(errors.mean()),
        "residual": float(terms.sum()),
        "nvl": float(np.mean([outcome.own_loss for outcome in outcomes])),
        **dict(zip(TERMS, terms.tolist(), strict=True)),
        "worst_replica": float(errors.max()),
        "best_replica": float(errors.min()),
    }
    metrics["normalized_score"] = 1.0 - min(metrics["relative_l2"], WORST_METRIC)
    fields = np.array([outcome.u for outcome in outcomes])
    traces = {
        "u": fields[0].astype(np.float32),
        "reference": exact.astype(np.float32),
        "loss": history,
        "scores": -np.minimum(errors, WORST_METRIC),
    }
    score = -min(metrics[metric], WORST_METRIC)
    return Judgement(score, metrics, diagnose(metrics, fields - exact, history), traces)


def diagnose(metrics: Mapping[str, float], errors: np.ndarray, history: np.ndarray) -> str:
    """The term that stayed large and where the solution is wrong, in words; `errors` are u - u_reference, (replicas,
    len(GRID_T), len(GRID_X)), `history` the program's own loss, (steps, replicas)."""
    largest = max(TERMS, key=lambda name: metrics[name])
    terms = ", ".join(f"{label} {metrics[name]:.2g}" for name, label in TERMS.items())
    squares = np.mean(errors**2, axis=0)
    total = max(squares.sum(), np.finfo(float).tiny)
    shock = squares[:, np.abs(GRID_X) < _SHOCK].sum() / total
    by_third = np.array([part.sum() for part in np.array_split(squares, 3)]) / total
    first, last = history[0].mean(), history[-1].mean()
    sentences = (
        f"Relative L2 error {metrics['relative_l2']:.4f} (0 is exact, 1 is u = 0).",
        f"Mean squares at held-out points: {terms}; the {TERMS[largest]} term stayed largest.",
        f"{shock:.0%} of the squared solution error lies at |x| < {_SHOCK} (the shock),",
        f"{by_third.max():.0%} in the {_THIRDS[by_third.argmax()]} third of the time.",
        f"The program's own loss went from {first:.3g} to {last:.3g}.",
    )
    return " ".join(sentences)
