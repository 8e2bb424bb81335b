"""The batch on a pool, tried on small bandits and compared with single environments."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest

import atlas_gym
from atlas_gym.evaluation import InfrastructureError

SPEC = atlas_gym.make_task("ATLAS-Bandit-v0")
GOOD, INLINED, BAD = (SPEC.starts[start] for start in ("named", "inlined", "scratch"))
BROKEN = "def policy(context, history, t):\n    return theta\n"
HANGING = "while True:\n    pass\n"
SMALL = {"horizon": 60, "replicas": 2}


def make(num_envs, **keywords):
    return gym.make_vec("ATLAS-Bandit-v0", num_envs=num_envs, **{**SMALL, **keywords})


@pytest.fixture(scope="module")
def batch():
    env = make(4)
    yield env
    env.close()


def test_rewards_observations_and_tasks_are_those_of_single_environments(batch):
    programs = (GOOD, BROKEN, BAD, INLINED)
    observations, infos = batch.reset(seed=30)
    stepped = batch.step(programs)
    for index, program in enumerate(programs):
        single = gym.make("ATLAS-Bandit-v0", **SMALL)
        observation, info = single.reset(seed=30 + index)
        assert observations[index] == observation
        assert infos["task_seed"][index] == info["task_seed"]
        observation, reward, terminated, truncated, info = single.step(program)
        assert (stepped[1][index], stepped[2][index], stepped[3][index]) == (reward, terminated, truncated)
        assert stepped[4]["final_obs"][index] == observation
        assert stepped[4]["final_info"]["status"][index] == info["status"]
        assert stepped[4]["final_info"]["feedback"][index] == info["feedback"]
        observation, info = single.reset()
        assert stepped[0][index] == observation
        assert stepped[4]["task_seed"][index] == info["task_seed"]
        single.close()


def test_misuse_is_refused(batch):
    batch.reset(seed=0)
    with pytest.raises(ValueError, match="3 programs for num_envs=4"):
        batch.step((GOOD,) * 3)
    with pytest.raises(gym.error.ResetNeeded):
        make(1).step((GOOD,))
    for actions in ("four", b"four", dict.fromkeys(range(4), GOOD)):
        with pytest.raises(TypeError, match="pass a tuple with a program for each episode"):
            batch.step(actions)
    with pytest.raises(ValueError, match="num_envs is 0; a batch has at least one"):
        make(0)
    with pytest.raises(ValueError, match="got 'none'"):
        make(2, confinement="none")


def test_a_reset_that_is_refused_leaves_all_episodes_as_they_were(batch):
    batch.reset(seed=40)
    with pytest.raises(gym.error.Error):
        batch.reset(seed=[50, 51, 52, -1])
    infos = batch.step(("",) * 4)[4]
    assert infos["final_info"]["task_seed"].tolist() == [40, 41, 42, 43]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_start_their_own_pool(batch, clone):
    batch.reset(seed=2)
    other = clone(batch)
    programs = (GOOD, BAD, INLINED, BROKEN)
    np.testing.assert_array_equal(other.step(programs)[1], batch.step(programs)[1])
    other.close()


def test_a_machine_that_fails_costs_no_turn(monkeypatch):
    def fail(*_):
        raise InfrastructureError("out of memory")

    env = make(1, turns=2)
    env.reset(seed=0)
    with monkeypatch.context() as patch:
        patch.setattr("atlas_gym.evaluation.EvaluatorPool.evaluate_all", fail)
        with pytest.raises(InfrastructureError, match="out of memory"):
            env.step((GOOD,))
    assert env.step((GOOD,))[4]["turn"].tolist() == [1]
    env.close()
