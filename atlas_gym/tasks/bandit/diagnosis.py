"""A short account of where a bandit program lost its regret, for the next prompt."""

import numpy as np

from atlas_gym.tasks.bandit.drift import chord_angle
from atlas_gym.tasks.bandit.instances import Instances
from atlas_gym.tasks.bandit.params import BanditParams


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
