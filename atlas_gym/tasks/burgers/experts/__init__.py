"""Loss strategies written by hand, one file each; every file is a candidate as it stands.

The first line of a file's docstring is its title in the gallery. Constants are tuned, where it says so, for
the default parameters.
"""

from collections.abc import Mapping

from atlas_gym.tasks.experts import Expert, load_experts

NAMES = (
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
"""In the order of the gallery."""

CONTROLS = ("knows_the_answer",)
"""Programs that do something else than weight a loss: for the gallery and the tests, not for learners."""


def experts() -> Mapping[str, Expert]:
    """All programs by name."""
    return load_experts(__name__, NAMES)


def controls() -> Mapping[str, Expert]:
    """The controls by name."""
    return load_experts(__name__, CONTROLS)
