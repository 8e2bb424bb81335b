"""A bandit evaluation in pictures (regret between the two ends of the scale, the drift of θ) and, for the next prompt,
in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.bandit.instances import DISPLACEMENT_LAG, Instances, chord_angle
from atlas_gym.tasks.bandit.params import BanditParams
from atlas_gym.tasks.drawing import blocks

_TITLE = "ATLAS-Bandit-v0"


def draw_text(evaluation: Evaluation) -> str:
    """Score, and regret per step over the horizon as a row of blocks (full height: uniform play)."""
    regret, uniform = (_per_step(evaluation.traces[name], 60) for name in ("regret", "uniform_regret"))
    normalized = evaluation.metrics["normalized_score"]
    return (
        f"{_TITLE}: ok, score {evaluation.score:.4f}, normalized {normalized:.3f}\n"
        f"regret per step |{blocks(regret / uniform.max())}| of uniform play\n"
    )


def draw_curves(axes: Sequence[Any], traces: Mapping[str, np.ndarray]) -> None:
    """Cumulative regret with uniform play and full information; below it regret per step with the drift."""
    above, below = axes
    above.set_ylabel("cumulative regret")
    below.set_ylabel("regret per step", color="tab:blue")
    below.set_xlabel(f"step (lower curves: over {DISPLACEMENT_LAG} steps)")
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


def diagnose(regret: np.ndarray, instances: Instances, params: BanditParams) -> str:
    """Say in a few sentences when regret was lost, how often the best arm was played and how fast θ moves.

    Args:
        regret: Regret of every step and replica, (T, R).
        instances: What the program was up against.
        params: The constants.
    """
    share, chance = float((regret == 0).mean()), 1 / params.arms
    uniform = instances.uniform_regret.mean()
    sentences = [
        _quarters(regret.mean(axis=1)),
        f"It played the best arm in {share:.0%} of the steps (chance: {chance:.0%}).",
        f"It lost {regret.mean() / uniform:.0%} of the regret of random play; full information would lose "
        f"{instances.informed_regret.mean() / uniform:.0%}.",
        _drift(params),
    ]
    return " ".join(sentences)


def _quarters(regret: np.ndarray) -> str:
    means = [f"{quarter.mean():.3f}" for quarter in np.array_split(regret, min(4, len(regret)))]
    text = f"Mean regret per step by quarter of the horizon: {', '.join(means)}"
    start = regret[: max(1, len(regret) // 20)].mean()
    return f"{text}; in its first twentieth {start:.3f}."


def _drift(params: BanditParams) -> str:
    speed = params.variation_per_step
    if speed == 0:
        return "The hidden parameter does not move."
    if params.drift == "jumps":
        every = params.jump_length / speed
        return f"The hidden parameter jumps by {params.jump_length:g}, on average every {every:.0f} steps."
    degrees = np.degrees(chord_angle(speed))
    return f"The hidden parameter moves by {speed:.3g} per step, {degrees:.0f} degrees of its unit sphere."
