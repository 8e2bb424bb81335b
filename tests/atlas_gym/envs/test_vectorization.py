"""Batches of every registered environment: in one pool, one after the other, in processes of their own."""

import gymnasium as gym
import numpy as np
import pytest

from atlas_gym import make_task
from atlas_gym.tasks.registry import find_task
from tests.atlas_gym.envs.registered import IDS, QUICK, marks, starts

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("keep_evaluators")]

SAME_STEP = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}


VECTORIZATIONS = {None: None, "sync": SAME_STEP, "async": {**SAME_STEP, "shared_memory": False}}


def vectorization(env_id, mode):
    """Outside this process torch has to be imported again, for seconds."""
    slow = mode != "sync" and find_task(env_id).torch
    return pytest.param(env_id, mode, marks=marks(env_id, slow), id=f"{env_id}-{mode or 'pool'}")


@pytest.mark.parametrize(
    ("env_id", "mode"), [vectorization(env_id, mode) for env_id in IDS for mode in VECTORIZATIONS]
)
def test_every_vectorization_gives_the_same_rewards(env_id, mode):
    env = gym.make_vec(
        env_id, num_envs=2, vectorization_mode=mode, vector_kwargs=VECTORIZATIONS[mode], **QUICK[env_id]
    )
    observations, infos = env.reset(seed=10)
    assert observations in env.observation_space
    programs = tuple(starts(env_id)[:2])
    _, rewards, terminated, _, infos = env.step(programs)
    env.close()
    expected = []
    for index, program in enumerate(programs):
        single = gym.make(env_id, **QUICK[env_id])
        single.reset(seed=10 + index)
        expected.append(single.step(program)[1])
        single.close()
    np.testing.assert_array_equal(rewards, expected)
    assert terminated.all()
    assert list(infos["final_info"]["status"]) == ["ok", "ok"]


def test_numbers_in_a_batchs_info_have_one_type_whatever_fails(env_id):
    broken, works = "def (", make_task(env_id).starts["named"]
    types = set()
    env = gym.make_vec(env_id, num_envs=2, **QUICK[env_id])
    for programs in ((broken, broken), (broken, works), (works, broken)):
        env.reset(seed=0)
        infos = env.step(programs)[4]["final_info"]
        numbers = [
            infos["score"],
            infos["incumbent_score"],
            infos["normalized_score"],
            *values(infos["metrics"]),
        ]
        types |= {array.dtype for array in numbers}
        failed = [program == broken for program in programs]
        assert np.isnan(infos["score"]).tolist() == failed
    env.close()
    assert types == {np.dtype(np.float64)}


def values(metrics):
    return [array for name, array in metrics.items() if not name.startswith("_")]
