"""Says in words what a trained network is missing, for the feedback to whoever writes the loss."""

from collections.abc import Mapping

import numpy as np

from atlas_gym.tasks.burgers.reference import GRID_X

_SHOCK = 0.1
"""Half the width of the strip around x = 0 that is called the shock."""
_TERMS = {"residual_term": "residual", "initial_term": "initial", "boundary_term": "boundary"}
_THIRDS = ("first", "second", "last")


def diagnose(metrics: Mapping[str, float], errors: np.ndarray, history: np.ndarray) -> str:
    """Name the term that stayed large and where the solution is wrong.

    Args:
        metrics: Of the judgement.
        errors: u - u_reference of every replica, (replicas, len(GRID_T), len(GRID_X)).
        history: The program's own loss, (steps, replicas).
    """
    largest = max(_TERMS, key=lambda name: metrics[name])
    terms = ", ".join(f"{label} {metrics[name]:.2g}" for name, label in _TERMS.items())
    squares = np.mean(errors**2, axis=0)
    total = max(squares.sum(), np.finfo(float).tiny)
    shock = squares[:, np.abs(GRID_X) < _SHOCK].sum() / total
    by_third = np.array([part.sum() for part in np.array_split(squares, 3)]) / total
    first, last = history[0].mean(), history[-1].mean()
    sentences = (
        f"Relative L2 error {metrics['relative_l2']:.4f} (0 is exact, 1 is u = 0).",
        f"Mean squares at held-out points: {terms}; the {_TERMS[largest]} term stayed largest.",
        f"{shock:.0%} of the squared solution error lies at |x| < {_SHOCK} (the shock),",
        f"{by_third.max():.0%} in the {_THIRDS[by_third.argmax()]} third of the time.",
        f"The program's own loss went from {first:.3g} to {last:.3g}.",
    )
    return " ".join(sentences)
