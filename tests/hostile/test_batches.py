"""The catalogue in vector environments and on the Ray pool, from a process with 500 open files."""

from dataclasses import fields
from importlib.util import find_spec

import gymnasium
import pytest

from tests.hostile.arena import attacks_on, many_open_files
from tests.hostile.batches import WIDTH, trouble
from tests.hostile.seats import SEATS, registered_ids

EVERY = 12
"""The quick suite tries one attack of so many; the slow one tries all."""


@pytest.mark.parametrize(
    ("env_id", "every"),
    [
        ("ATLAS-Bandit-v0", EVERY),
        *(
            pytest.param(env_id, 1, marks=[pytest.mark.slow, pytest.mark.timeout(900)])
            for env_id in registered_ids()
        ),
    ],
)
def test_vector_environments(env_id, every):
    seat = SEATS[env_id]()
    constants = {constant.name for constant in fields(seat.task)} - {"seed", "split"}
    with many_open_files():
        envs = gymnasium.make_vec(
            env_id, num_envs=WIDTH, task_seed=3, **{name: getattr(seat.task, name) for name in constants}
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
@pytest.mark.parametrize("env_id", registered_ids())
def test_ray_pool(env_id):
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    seat = SEATS[env_id]()
    with many_open_files(), RayEvaluatorPool(2) as pool:
        assert trouble(seat, attacks_on(seat), lambda programs: pool.map(programs, seat.task)) == []
