"""Two limits of the theory in numbers: what a margin asks of the drift, and what a constant floor costs.

Lemma A.3 needs the best action to lead by γ in every round. A best action can then only be overtaken by a
step of at least γ/(2 φ_max): slow drift with a margin never switches, and drift that switches slowly has no
margin. `margins_along` measures which of the two a drift does.

A reference that keeps a floor for ever costs something for ever: without drift and with θ known, EvoDPO
settles at the fixed point of π_ref ← floor(π_ref exp(u/β)), whose regret per round is the slope of a term
linear in T. `floor_prices` finds it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.theory import policies
from experiments.theory.checks import switches_and_margin
from experiments.theory.drift import variation
from experiments.theory.model import FEATURE_BOUND, BanditSettings, make_bandits
from experiments.theory.settings import BETAS, FLOORS, OTHER_DRIFTS, ROTATION

_REFRESHES = 2000


def margins_along(seeds: int, horizons: Sequence[int]) -> list[dict[str, Any]]:
    """Lemma A.3 under rotation at each horizon, and under jumps at the first; medians over seeds.

    Of each: B_T as the changes of the optimal action (`switches`, mean over contexts), γ as the smallest lead of a best
    action in any round and context (`margin`), 2 φ_max V_T/γ (`bound`), and the largest ‖θ_{t+1} − θ_t‖ (`step`).
    """
    rows = [("rotation, 4π", ROTATION, horizon) for horizon in horizons]
    rows += [("8 jumps, 4π", OTHER_DRIFTS["8 jumps, 4π"], horizons[0])]
    found = []
    for name, drift, horizon in rows:
        bandit = make_bandits(BanditSettings(horizon, drift), range(seeds))
        switches, margin = switches_and_margin(bandit)
        bound = 2 * FEATURE_BOUND * variation(bandit.parameters) / margin
        steps = np.linalg.norm(np.diff(bandit.parameters, axis=1), axis=-1).max(1)
        measured = {"switches": switches.mean(1), "margin": margin, "bound": bound, "step": steps}
        medians = {key: float(np.median(values)) for key, values in measured.items()}
        found.append({"drift": name, "horizon": horizon, **medians})
    return found


def floor_prices(seeds: int) -> list[dict[str, float]]:
    """The price of every floor of the sweep at β = 1, and of floor 0.05 at every β.

    `regret`: per round at the fixed point, mean over seeds and contexts; `share`: the same over that of DPO from the
    uniform reference, θ known.
    """
    utilities = make_bandits(BanditSettings(horizon=2), range(seeds)).utilities(0, 1)[:, 0]
    pairs = [(floor, 1.0) for floor in FLOORS if floor > 0] + [(0.05, beta) for beta in BETAS if beta != 1.0]
    return [{"floor": floor, "beta": beta, **_price(utilities, floor, beta)} for floor, beta in pairs]


def _price(utilities: np.ndarray, floor: float, beta: float) -> dict[str, float]:
    start = reference = policies.uniform(utilities.shape)
    for _ in range(_REFRESHES):
        reference = policies.with_floor(policies.tilted(reference, utilities, beta), floor)
    ours, dpo = (_regret(utilities, policies.tilted(r, utilities, beta)) for r in (reference, start))
    return {"regret": ours, "share": ours / dpo}


def _regret(utilities: np.ndarray, log_policy: np.ndarray) -> float:
    return float((policies.largest(utilities) - policies.expected(log_policy, utilities)).mean())
