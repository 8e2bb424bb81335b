"""Loss strategies written by hand, one file each; every file is a candidate as it stands.

The first line of a file's docstring is its title in the gallery. Constants are tuned, where it says so, for
the default parameters.
"""

from atlas_gym.tasks.given_programs import load_experts

EXPERTS = load_experts(
    __name__,
    "from_scratch",
    "weighted",
    "weighted_inlined",
    "fixed_1_10_10",
    "fixed_1_100_100",
    "softadapt",
    "relobralo",
    "residual_attention",
    "causal",
    "inverse_loss",
    "epoch_schedule",
    "huber_running",
    "shock_downweight",
    "growing",
    "growing_robust",
)
"""All programs by name, in the order of the gallery."""

CONTROLS = load_experts(__name__, "knows_the_answer")
"""Programs that do something else than weight a loss: for the gallery and the tests, not for learners."""
