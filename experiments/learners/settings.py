"""What the leaderboard tries: a template per environment, and constants that make the search cheap."""

from experiments.learners.objective import Setting

SETTINGS = {
    "ATLAS-Bandit-v0": Setting("ATLAS-Bandit-v0", "sw_linucb", {"horizon": 500, "replicas": 2}),
    "ATLAS-Burgers-v0": Setting("ATLAS-Burgers-v0", "loss_weights", {"steps": 200, "replicas": 1}, tasks=2),
}
"""By environment. The drift per step of a shorter bandit is that of the full one."""
