"""The batch on a pool, tried on small bandits and compared with single environments."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest

import atlas_gym
from atlas_gym.evaluation import InfrastructureError, Limits

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


def test_hanging_programs_end_at_their_own_limit_and_the_others_do_not_notice():
    env = make(6, workers=2, limits=Limits(wall_s=0.5, cpu_s=1.0), task_seed=4)
    env.reset()
    honest = env.step((GOOD,) * 6)[1]
    _, rewards, _, _, infos = env.step((HANGING, GOOD) * 3)
    assert list(infos["final_info"]["status"]) == ["timeout", "ok"] * 3
    assert (rewards[::2] == SPEC.worst_score).all()
    assert (rewards[1::2] == honest[1::2]).all()
    env.close()


def test_misuse_is_refused(batch):
    batch.reset(seed=0)
    with pytest.raises(ValueError, match="3 programs for num_envs=4"):
        batch.step((GOOD,) * 3)
    with pytest.raises(gym.error.ResetNeeded):
        make(1).step((GOOD,))
    for actions in ("four", b"four", dict.fromkeys(range(4), GOOD)):
        with pytest.raises(TypeError, match="pass a tuple with a program for each episode"):
            batch.step(actions)
    for incumbent in (3, b"four", {"a": GOOD}):
        with pytest.raises(ValueError, match="incumbent program failed: invalid: a program is text, not"):
            batch.reset(options={"incumbent": incumbent})
    with pytest.raises(ValueError, match="num_envs is 0; a batch has at least one"):
        make(0)
    with pytest.raises(ValueError, match="got 'none'"):
        make(2, confinement="none")


@pytest.mark.parametrize(
    ("seed", "options", "error"),
    [
        ([50, 51, 52, -1], None, gym.error.Error),
        ([50, 51, 52, 53], {"incumbent": [None, None, None, BROKEN]}, ValueError),
    ],
)
def test_a_reset_that_is_refused_leaves_all_episodes_as_they_were(batch, seed, options, error):
    batch.reset(seed=40)
    with pytest.raises(error):
        batch.reset(seed=seed, options=options)
    infos = batch.step(("",) * 4)[4]
    assert infos["final_info"]["task_seed"].tolist() == [40, 41, 42, 43]


def test_the_specification_makes_an_equal_environment():
    env = make(2, workers=1)
    again = gym.make_vec(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert (again.num_envs, again.workers, again.task) == (2, 1, env.task)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_start_their_own_pool(batch, clone):
    batch.reset(seed=2)
    other = clone(batch)
    programs = (GOOD, BAD, INLINED, BROKEN)
    np.testing.assert_array_equal(other.step(programs)[1], batch.step(programs)[1])
    other.close()


def test_a_learner_can_bring_its_incumbents_along(batch):
    observations, infos = batch.reset(seed=3, options={"incumbent": BAD})
    assert infos["incumbent"].tolist() == [BAD] * 4
    single = gym.make("ATLAS-Bandit-v0", **SMALL)
    assert observations[2] == single.reset(seed=5, options={"incumbent": BAD})[0]
    single.close()
    _, infos = batch.reset(seed=3, options={"incumbent": [BAD, None, GOOD, None]})
    assert infos["incumbent"].tolist() == [BAD, None, GOOD, None]
    assert np.isnan(infos["incumbent_score"]).tolist() == [False, True, False, True]
    with pytest.raises(ValueError, match="incumbent program failed: error"):
        batch.reset(options={"incumbent": BROKEN})
    with pytest.raises(ValueError, match="2 incumbents for num_envs=4"):
        batch.reset(options={"incumbent": [GOOD, GOOD]})


def test_a_mask_resets_some_episodes_and_leaves_the_others():
    env = make(3, turns=3)
    with pytest.raises(ValueError, match="without reset_mask first"):
        env.reset(options={"reset_mask": np.array([True, False, False])})
    env.reset(seed=0)
    before = env.step((GOOD, GOOD, BAD))[0]
    observations, infos = env.reset(seed=9, options={"reset_mask": np.array([False, True, False])})
    assert infos["_task_seed"].tolist() == [False, True, False]
    assert infos["task_seed"][1] == 10
    assert [a == b for a, b in zip(observations, before, strict=True)] == [True, False, True]
    assert env.step((GOOD, GOOD, GOOD))[4]["turn"].tolist() == [2, 1, 2]
    for mask in ([True], np.zeros(3)):
        with pytest.raises(ValueError, match="reset_mask must be boolean of shape"):
            env.reset(options={"reset_mask": mask})
    env.close()


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
