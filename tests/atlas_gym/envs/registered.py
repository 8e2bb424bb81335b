"""The registered environments, small."""

from importlib.util import find_spec

import pytest

import atlas_gym
from atlas_gym.tasks.registry import BUILT_IN, find_task

QUICK = {
    "ATLAS-Bandit-v0": {"horizon": 60, "replicas": 2},
    "ATLAS-Burgers-v0": {"steps": 4, "replicas": 1, "n_residual": 50},
    "ATLAS-BinPacking-v0": {"items": 60, "count": 5},
    "ATLAS-TSP-v0": {"cities": 12, "count": 3},
    "ATLAS-CirclePacking-v0": {"n": 10, "best_known": 1.5},
    "ATLAS-Dispatching-v0": {"jobs": 10, "count": 3},
    "ATLAS-Construct-DistanceRatio-v0": {"n": 4, "best_known": 2.0},
}
"""Constants that make one evaluation take milliseconds; an environment without an entry fails."""

IDS = [env_id for env_id in BUILT_IN if "Construct" not in env_id or env_id in QUICK]
"""One of the constructions stands for all: they differ in nothing but their judges."""
ONE_PROBLEM = {"ATLAS-CirclePacking-v0", "ATLAS-Construct-DistanceRatio-v0"}
"""Environments that draw nothing: every seed of every split is the same problem."""


def marks(env_id, slow=False):
    """Of a test with this environment: skipped where torch is needed and missing; `slow` marks it so."""
    missing = find_task(env_id).torch and find_spec("torch") is None
    skipped = [pytest.mark.skip(reason="needs the extra `burgers`")] if missing else []
    return [*skipped, *([pytest.mark.slow] if slow else [])]


def starts(env_id):
    return list(atlas_gym.make_task(env_id, **QUICK[env_id]).starts.values())
