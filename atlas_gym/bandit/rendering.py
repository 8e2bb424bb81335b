"""Pictures of a bandit evaluation: cumulative regret between the two ends of the scale, and how far θ has moved."""

import numpy as np

from atlas_gym.drawing import blocks, figure, to_image
from atlas_gym.evaluation.result import Evaluation

_TITLE = "ATLAS-Bandit-v0"


def draw_text(evaluation: Evaluation | None) -> str:
    """Status, score, and regret per step over the horizon as a row of blocks (full height: uniform play)."""
    if evaluation is None:
        return f"{_TITLE}: no program evaluated yet\n"
    if not evaluation.ok:
        return f"{_TITLE}: {evaluation.status}\n{evaluation.detail}\n"
    regret, uniform = (_per_step(evaluation.traces[name], 60) for name in ("regret", "uniform_regret"))
    return (
        f"{_TITLE}: ok, score {evaluation.score:.4f}, normalized {evaluation.metrics['normalized_score']:.3f}\n"
        f"regret per step |{blocks(regret / uniform.max())}| of uniform play\n"
    )


def draw_image(evaluation: Evaluation | None) -> np.ndarray:
    """Cumulative regret with uniform play and full information; below it the length of θ's path."""
    canvas, (above, below) = figure(_TITLE, rows=2)
    above.set_ylabel("cumulative regret")
    below.set_ylabel("path of θ")
    below.set_xlabel("step")
    if evaluation is not None and evaluation.ok:
        for name, label, color in _CURVES:
            above.plot(evaluation.traces[name], label=label, color=color)
        above.set_title(f"score {evaluation.score:.4f}", fontsize=9)
        above.legend(fontsize=8)
        below.plot(evaluation.traces["variation"], color="tab:orange")
    elif evaluation is not None:
        above.set_title(f"status: {evaluation.status}", fontsize=9)
    return to_image(canvas)


_CURVES = (
    ("uniform_regret", "uniform", "tab:gray"),
    ("regret", "program", "tab:blue"),
    ("informed_regret", "full information", "tab:green"),
)


def _per_step(cumulative: np.ndarray, columns: int) -> np.ndarray:
    parts = np.array_split(np.diff(cumulative, prepend=0.0), min(columns, len(cumulative)))
    return np.array([part.mean() for part in parts])
