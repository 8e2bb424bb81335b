"""What a program's author is told about the bandit: the signature and the task in words."""

from atlas_gym.tasks.bandit.params import BanditParams

_SIGNATURE = "def policy(context, history, t):"

_TEMPLATE = """\
Write a Python function `policy` that plays a drifting linear contextual bandit with low regret.

In every step t = 0 … {last} you see {arms} context vectors and choose one, the arm. The reward of an arm with
context x is ⟨θ_t, x⟩ plus noise, where the hidden vector θ_t has length 1 and {drift}.
Only the reward of the chosen arm is revealed. The score is the negative mean expected regret per step, over
{replicas} independent bandits: higher is better, 0 is perfect, random play is the bottom.

{signature}
    context: float64 array of shape ({arms}, {dimension}), {contexts}.
    history: the rounds played so far, a sequence of (x, arm, reward), oldest first. As read-only arrays, much
        faster than a loop: history.contexts (n, {dimension}), history.arms (n,), history.rewards (n,).
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
        last=params.horizon - 1,
        arms=params.arms,
        last_arm=params.arms - 1,
        dimension=params.dimension,
        replicas=params.replicas,
        drift=_DRIFT[params.drift],
        contexts=_CONTEXTS[params.contexts],
        signature=_SIGNATURE,
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
