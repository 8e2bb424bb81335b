"""Prompts of the bandit: the signature, the task in words, hints, and facts that playing at random shows.

How well the last n rewards predict the next one says how noisy rewards are and how fast θ moves, without naming either.
"""

import numpy as np

from atlas_gym.hidden_streams import hidden_stream
from atlas_gym.tasks.bandit.instances import draw_instances
from atlas_gym.tasks.bandit.params import BanditParams

_TEMPLATE = """\
Write a Python function `policy` that plays a drifting linear contextual bandit with low regret.

In every step t = 0 … {last} you see {p.arms} context vectors and choose one, the arm. The reward of an arm with
context x is ⟨θ_t, x⟩ plus noise, where the hidden vector θ_t has length 1 and {drift}.
Only the reward of the chosen arm is revealed. The score is the negative mean expected regret per step, over
{p.replicas} independent bandits: higher is better, 0 is perfect, random play is the bottom.

def policy(context, history, t):
    context: float64 array of shape ({p.arms}, {p.dimension}), {contexts}.
    history: the rounds played so far, a sequence of (x, arm, reward), oldest first. As read-only arrays, much
        faster than a loop: history.contexts (n, {p.dimension}), history.arms (n,), history.rewards (n,).
    t: index of the step, equal to len(history).
    Returns the index of the arm, an integer from 0 to {last_arm}.

NumPy is available as np. Module-level variables keep their values between the steps of one bandit and start
afresh for each. No files, network or processes."""

_DRIFT = {
    "random_walk": "drifts a little in every step, in a random direction",
    "rotation": "drifts a little in every step, round a circle",
    "jumps": "stays where it is but for abrupt jumps",
    "none": "stays where it is",
}
_CONTEXTS = {"unit": "one vector of length 1 per arm", "gaussian": "one standard normal vector per arm"}


def description(params: BanditParams) -> str:
    """State the task with its constants; σ and the speed of the drift stay for the program to find out."""
    return _TEMPLATE.format(
        p=params,
        last=params.horizon - 1,
        last_arm=params.arms - 1,
        drift=_DRIFT[params.drift],
        contexts=_CONTEXTS[params.contexts],
    )


HINTS = (
    "its memory: a window that is too long keeps stale data, one that is too short is noise; fading old samples is an "
    "alternative to cutting them off",
    "its regularisation: with little data in memory, a large ridge pulls the estimate to zero and a tiny one makes it "
    "wild",
    "its exploration: a bonus that is too large keeps paying for information that drift makes worthless",
    "its cost: walking through the whole history at every step runs into the time limit",
)
"""What usually limits a program."""


WINDOWS = (5, 10, 20, 40, 80, 160)
"""Numbers of past steps that predictions are made from."""
_EVERY = 10
_RIDGE = 0.1


def observe(params: BanditParams, seed: int, split: str) -> tuple[str, ...]:
    """Facts about the task of a seed, one line each."""
    instances = draw_instances(params, seed, split)
    shape = instances.rewards.shape[:2]
    arms = hidden_stream("bandit", split, seed, "random play").integers(params.arms, size=shape)[..., None]
    rewards = np.take_along_axis(instances.rewards, arms, axis=-1)[..., 0]
    features = np.take_along_axis(instances.contexts, arms[..., None], axis=2)[:, :, 0]
    errors = (f"{window}: {prediction_error(features, rewards, window):.3f}" for window in WINDOWS)
    return (
        f"observed in random play: {params.arms} arms, {params.dimension} dimensions, {params.horizon} steps; "
        f"rewards have mean {rewards.mean():.2f} and standard deviation {rewards.std():.2f}",
        f"error of predicting a reward from the last n steps: {', '.join(errors)}",
    )


def prediction_error(features: np.ndarray, rewards: np.ndarray, window: int) -> float:
    """Root mean square error of one-step predictions by ridge regression on the last `window` steps, at most T - 1, of
    played contexts (T, R, d) and their rewards (T, R)."""
    window = min(window, len(rewards) - 1)
    squares = []
    for t in range(window, len(rewards), _EVERY):
        x, y = features[t - window : t], rewards[t - window : t]
        gram = np.einsum("trd,tre->rde", x, x) + _RIDGE * np.eye(x.shape[-1])
        estimate = np.linalg.solve(gram, np.einsum("trd,tr->rd", x, y)[..., None])[..., 0]
        squares.append((rewards[t] - np.einsum("rd,rd->r", features[t], estimate)) ** 2)
    return float(np.sqrt(np.mean(squares)))
