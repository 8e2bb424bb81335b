"""A bandit evaluation in pictures (regret between the two ends of the scale, the drift of θ) and, for the next prompt,
in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.bandit.instances import DISPLACEMENT_LAG, Instances, chord_angle
from atlas_gym.tasks.bandit.params import BanditParams
from atlas_gym.tasks.drawing import blocks

_COLUMNS = 60
"""Of a row of blocks."""


def draw_text(evaluation: Evaluation) -> str:
    """Score, and regret per step over the horizon as a row of blocks (full height: uniform play)."""
    per_step = []
    for name in ("regret", "uniform_regret"):
        steps = np.diff(evaluation.traces[name], prepend=0.0)
        per_step.append(np.array([part.mean() for part in np.array_split(steps, min(_COLUMNS, len(steps)))]))
    normalized = evaluation.metrics["normalized_score"]
    return (
        f"ATLAS-Bandit-v0: ok, score {evaluation.score:.4f}, normalized {normalized:.3f}\n"
        f"regret per step |{blocks(per_step[0] / per_step[1].max())}| of uniform play\n"
    )


def draw_curves(axes: Sequence[Any], traces: Mapping[str, np.ndarray]) -> None:
    """Cumulative regret with uniform play and full information; below it regret per step with the drift."""
    above, below = axes
    above.set_ylabel("cumulative regret")
    below.set_ylabel("regret per step", color="tab:blue")
    below.set_xlabel(f"step (lower curves: over {DISPLACEMENT_LAG} steps)")
    above.plot(traces["uniform_regret"], label="uniform", color="tab:gray")
    above.plot(traces["regret"], label="program", color="tab:blue")
    above.plot(traces["informed_regret"], label="full information", color="tab:green")
    above.legend(fontsize=8)
    lag = min(DISPLACEMENT_LAG, len(traces["regret"]) - 1)
    steps = np.arange(lag, len(traces["regret"]))
    below.plot(steps, (traces["regret"][lag:] - traces["regret"][:-lag]) / lag, color="tab:blue")
    drift = below.twinx()
    drift.set_ylabel("displacement of θ", color="tab:orange")
    drift.set_ylim(0, 2)
    drift.plot(steps, traces["displacement"][lag:], color="tab:orange")


def diagnose(regret: np.ndarray, instances: Instances, params: BanditParams) -> str:
    """When regret, (T, R), was lost, how often the best arm was played and how fast θ moves, in a few sentences."""
    by_step, uniform = regret.mean(axis=1), instances.uniform_regret.mean()
    quarters = ", ".join(f"{quarter.mean():.3f}" for quarter in np.array_split(by_step, min(4, len(by_step))))
    speed = params.variation_per_step
    if speed == 0:
        drift = "The hidden parameter does not move."
    elif params.drift == "jumps":
        every = params.jump_length / speed
        drift = f"The hidden parameter jumps by {params.jump_length:g}, on average every {every:.0f} steps."
    else:
        degrees = np.degrees(chord_angle(speed))
        drift = (
            f"The hidden parameter moves by {speed:.3g} per step, {degrees:.0f} degrees of its unit sphere."
        )
    return (
        f"Mean regret per step by quarter of the horizon: {quarters}; in its first twentieth "
        f"{by_step[: max(1, len(by_step) // 20)].mean():.3f}. "
        f"It played the best arm in {(regret == 0).mean():.0%} of the steps (chance: {1 / params.arms:.0%}). "
        f"It lost {regret.mean() / uniform:.0%} of the regret of random play; full information would lose "
        f"{instances.informed_regret.mean() / uniform:.0%}. {drift}"
    )
