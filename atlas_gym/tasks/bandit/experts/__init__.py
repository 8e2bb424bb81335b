"""Bandit programs written by hand, one file each; every file is a candidate as it stands.

The first line of a file's docstring is its title in the gallery. Constants are tuned, where it says so, for
the default preset (σ 0.2, V 400).
"""

from atlas_gym.tasks.given_programs import load_experts

EXPERTS = load_experts(
    __name__,
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
"""All programs by name, in the order of the gallery."""
