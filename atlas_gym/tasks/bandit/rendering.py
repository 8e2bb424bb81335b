"""Pictures of a bandit evaluation: regret between the two ends of the scale, and the drift of θ."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.bandit.instances import DISPLACEMENT_LAG
from atlas_gym.tasks.drawing import blocks, figure, to_image

_TITLE = "ATLAS-Bandit-v0"


def draw_text(evaluation: Evaluation | None) -> str:
    """Status, score, and regret per step over the horizon as a row of blocks (full height: uniform play)."""
    if evaluation is None:
        return f"{_TITLE}: no program evaluated yet\n"
    if not evaluation.ok:
        return f"{_TITLE}: {evaluation.status}\n{evaluation.detail}\n"
    regret, uniform = (_per_step(evaluation.traces[name], 60) for name in ("regret", "uniform_regret"))
    normalized = evaluation.metrics["normalized_score"]
    return (
        f"{_TITLE}: ok, score {evaluation.score:.4f}, normalized {normalized:.3f}\n"
        f"regret per step |{blocks(regret / uniform.max())}| of uniform play\n"
    )


def draw_image(evaluation: Evaluation | None) -> np.ndarray:
    """Cumulative regret with uniform play and full information; below it regret per step with the drift."""
    canvas, (above, below) = figure(_TITLE, rows=2)
    above.set_ylabel("cumulative regret")
    below.set_ylabel("regret per step", color="tab:blue")
    below.set_xlabel(f"step (lower curves: over {DISPLACEMENT_LAG} steps)")
    if evaluation is not None and evaluation.ok:
        above.set_title(f"score {evaluation.score:.4f}", fontsize=9)
        _draw_curves(above, below, evaluation.traces)
    elif evaluation is not None:
        above.set_title(f"status: {evaluation.status}", fontsize=9)
    return to_image(canvas)


def _draw_curves(above: Any, below: Any, traces: Mapping[str, np.ndarray]) -> None:
    for name, label, color in _CURVES:
        above.plot(traces[name], label=label, color=color)
    above.legend(fontsize=8)
    lag = min(DISPLACEMENT_LAG, len(traces["regret"]) - 1)
    steps = np.arange(lag, len(traces["regret"]))
    below.plot(steps, (traces["regret"][lag:] - traces["regret"][:-lag]) / lag, color="tab:blue")
    drift = below.twinx()
    drift.set_ylabel("displacement of θ", color="tab:orange")
    drift.set_ylim(0, 2)
    drift.plot(steps, traces["displacement"][lag:], color="tab:orange")


_CURVES = (
    ("uniform_regret", "uniform", "tab:gray"),
    ("regret", "program", "tab:blue"),
    ("informed_regret", "full information", "tab:green"),
)


def _per_step(cumulative: np.ndarray, columns: int) -> np.ndarray:
    parts = np.array_split(np.diff(cumulative, prepend=0.0), min(columns, len(cumulative)))
    return np.array([part.mean() for part in parts])
