"""The constants of the bandit environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

Contexts = Literal["unit", "gaussian"]
Drift = Literal["random_walk", "rotation", "jumps", "none"]


@dataclass(frozen=True)
class BanditParams:
    """A drifting linear bandit: K context vectors x per step, reward ⟨θ_t, x⟩ + noise, θ_t of length 1."""

    arms: int = 5
    """K, context vectors to choose from in every step; 2 to 255 (the paper's 5)."""
    dimension: int = 5
    """d, length of a context vector; 2 to 1,000 (the paper's 5)."""
    horizon: int = 2000
    """T, steps per replica; 10 to 1,000,000 (the paper's 2000)."""
    noise: float = 0.2
    """σ, standard deviation of the Gaussian noise on a reward; ≥ 0. 0.2 leaves room for improvement."""
    variation_budget: float = 400.0
    """V, the total length of θ's path, Σ‖θ_{t+1} − θ_t‖ (paper, Sec. 3); 0 to T. 400 is 0.2 per step, 11°."""
    drift: Drift = "random_walk"
    """How θ moves: `random_walk` (Eq. 17; V/T in every step, in a random direction), `rotation` (V/T in every
    step, round a fixed circle), `jumps` (still but for abrupt jumps of `jump_length`) or `none`."""
    jump_length: float = 1.0
    """Length of one jump, in (0, 2], for drift `jumps`; the budget gives V / jump_length of them, rounded."""
    contexts: Contexts = "unit"
    """`unit`: uniform on the unit sphere. `gaussian`: N(0, I), not normalised."""
    replicas: int = 5
    """Independent bandits that a program plays, the same for all programs of a task; scores are means."""

    def __post_init__(self) -> None:
        for name in ("arms", "dimension", "horizon", "replicas"):
            value = getattr(self, name)
            _check(name, value, isinstance(value, Integral), "a whole number (int)")
        _check("arms", self.arms, 2 <= self.arms <= 255, "2 to 255")
        _check("dimension", self.dimension, 2 <= self.dimension <= 1000, "2 to 1,000")
        _check("horizon", self.horizon, 10 <= self.horizon <= 1_000_000, "10 to 1,000,000")
        _check("noise", self.noise, self.noise >= 0, "at least 0")
        budget = self.variation_budget
        _check("variation_budget", budget, 0 <= budget <= self.horizon, "between 0 and the horizon")
        _check("drift", self.drift, self.drift in get_args(Drift), f"one of {get_args(Drift)}")
        _check("jump_length", self.jump_length, 0 < self.jump_length <= 2, "in (0, 2]")
        _check("contexts", self.contexts, self.contexts in get_args(Contexts), f"one of {get_args(Contexts)}")
        _check("replicas", self.replicas, 1 <= self.replicas <= 1000, "1 to 1000")

    @property
    def variation_per_step(self) -> float:
        """V/T, the mean length of θ's movement in one step; 0 without drift."""
        return 0.0 if self.drift == "none" else self.variation_budget / self.horizon


def _check(name: str, value: object, holds: bool, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}; it must be {allowed}")


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    # The paper gives neither σ nor V nor the law of the contexts. Its initial program scores −0.621, which
    # contexts of length 1 cannot give (uniform play: −0.52); these constants do. See docs/environments.md.
    "paper": {"contexts": "gaussian", "variation_budget": 600.0, "noise": 0.7},
    "noisy": {"noise": 0.5},
    "rotation": {"drift": "rotation", "variation_budget": 100.0},
    "jumps": {"drift": "jumps", "variation_budget": 40.0},
    "stationary": {"drift": "none", "variation_budget": 0.0},
}
"""Named sets of constants."""
