import copy
import pickle

import gymnasium
import numpy as np

import atlas_gym
from atlas_gym.envs.episode import Episode, EpisodeSettings
from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.envs.spaces import Source
from atlas_gym.evaluation import Evaluation, Status

PROGRAMS = ("def f():\n    return 1\n", "def f():\n    return 'θ'\n")


def test_length_alone_decides():
    space = Source(10)
    assert "" in space
    assert "x" * 10 in space
    assert "x" * 11 not in space
    assert "θ²\t\n\0é中" in space
    assert b"bytes" not in space
    assert 3 not in space
    assert np.array(["x"]) not in space


def test_samples_come_from_the_pool_and_repeat_with_the_seed():
    space = Source(100, pool=PROGRAMS, seed=3)
    drawn = [space.sample() for _ in range(30)]
    assert set(drawn) == set(PROGRAMS)
    space.seed(3)
    assert [space.sample() for _ in range(30)] == drawn


def test_copies_are_equal_and_others_are_not():
    space = Source(100, pool=PROGRAMS)
    for clone in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert clone == space
        assert hash(clone) == hash(space)
        assert clone.sample() in PROGRAMS
    assert space != Source(101, pool=PROGRAMS)
    assert space != Source(100)
    assert space != gymnasium.spaces.Text(100)


def test_an_incumbent_of_nothing_but_backticks_leaves_the_observation_in_its_space():
    env = ProgramEnv(task="ATLAS-BinPacking-v0")
    episode = Episode(env.task, EpisodeSettings(), task_seed=0)
    comment = "#" + "`" * (env.task.limits.source_chars - 1)
    episode.record(comment, Evaluation(Status.OK, -0.1))
    assert comment in env.action_space
    assert episode.observation() in env.observation_space


def test_long_errors_leave_the_observation_in_its_space():
    limits = atlas_gym.Limits(source_chars=1_000, error_chars=60_000)
    env = ProgramEnv(task="ATLAS-BinPacking-v0", limits=limits)
    episode = Episode(env.task, EpisodeSettings(), task_seed=0)
    episode.record("", Evaluation(Status.ERROR, None, "x" * limits.error_chars))
    assert episode.observation() in env.observation_space
