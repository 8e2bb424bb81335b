"""Bandit programs written by hand, one file each; every file is a candidate as it stands.

The first line of a file's docstring is its title in the gallery. Constants are tuned, where it says so, for
the default preset (σ 0.2, V 400).
"""

from collections.abc import Mapping

from atlas_gym.tasks.experts import Expert, load_experts

NAMES = (
    "from_scratch",
    "uniform",
    "linucb",
    "lin_ts",
    "sw_linucb",
    "sw_linucb_inlined",
    "dlinucb",
    "restart_linucb",
    "tuned_sw_linucb",
    "d_linucb",
    "weighted_linucb",
    "kalman",
)
"""In the order of the gallery."""


def experts() -> Mapping[str, Expert]:
    """All programs by name."""
    return load_experts(__name__, NAMES)
