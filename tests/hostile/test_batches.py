"""The catalogue in vector environments and on the Ray pool, from a process with 500 open files."""

from dataclasses import asdict
from importlib.util import find_spec

import gymnasium
import pytest

from tests.hostile.arena import attacks_on, many_open_files
from tests.hostile.batches import WIDTH, trouble
from tests.hostile.seats import LIMITS, SEATS, registered_ids

EVERY = 12
"""The quick suite tries one attack of so many; the slow one tries all."""
CONSTANTS = {
    "ATLAS-Bandit-v0": {"horizon": 60, "replicas": 5},
    "ATLAS-Burgers-v0": {
        "steps": 5, "n_residual": 50, "n_initial": 10, "n_boundary": 10, "hidden_width": 8, "hidden_layers": 2,
        "replicas": 2,
    },
    "ATLAS-BinPacking-v0": {"items": 60, "count": 3},
    "ATLAS-TSP-v0": {"cities": 12, "count": 3},
    "ATLAS-CirclePacking-v0": {},
    "ATLAS-Dispatching-v0": {"jobs": 30, "count": 3},
    "ATLAS-Construct-DistanceRatio-v0": {},
}  # fmt: skip
"""The seats' own."""


def test_every_environment_has_constants():
    assert sorted(CONSTANTS) == sorted(registered_ids())


@pytest.mark.parametrize(
    ("env_id", "every"),
    [
        ("ATLAS-Bandit-v0", EVERY),
        *(
            pytest.param(env_id, 1, marks=[pytest.mark.slow, pytest.mark.timeout(900)])
            for env_id in CONSTANTS
        ),
    ],
)
def test_vector_environments(env_id, every):
    seat = SEATS[env_id]()
    with many_open_files():
        envs = gymnasium.make_vec(
            env_id, num_envs=WIDTH, task_seed=3, limits=asdict(LIMITS), **CONSTANTS[env_id]
        )
        envs.reset(seed=0)

        def evaluate(programs):
            envs.step(tuple(programs))
            return envs.unwrapped.last_evaluations

        try:
            assert trouble(seat, attacks_on(seat)[::every], evaluate) == []
        finally:
            envs.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")
@pytest.mark.parametrize("env_id", CONSTANTS)
def test_ray_pool(env_id):
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    seat = SEATS[env_id]()
    with many_open_files(), RayEvaluatorPool(2) as pool:
        assert trouble(seat, attacks_on(seat), lambda programs: pool.map(programs, seat.task)) == []
