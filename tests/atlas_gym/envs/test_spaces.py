import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Tuple
from gymnasium.vector.utils import batch_space, create_shared_memory

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


def test_membership_does_not_look_at_the_characters():
    """Gymnasium's Text does, which takes milliseconds for a long program."""

    class Unreadable(str):
        def __iter__(self):
            raise AssertionError("looked at the characters")

    text = Unreadable("x" * 65536)
    assert text in Source(65536)
    with pytest.raises(AssertionError, match="looked at"):
        gymnasium.spaces.Text(65536, charset="x").contains(text)


def test_samples_come_from_the_pool_and_repeat_with_the_seed():
    space = Source(100, pool=PROGRAMS, seed=3)
    drawn = [space.sample() for _ in range(30)]
    assert set(drawn) == set(PROGRAMS)
    space.seed(3)
    assert [space.sample() for _ in range(30)] == drawn


def test_without_a_pool_samples_are_texts_of_the_space():
    space = Source(20, seed=0)
    assert all(space.sample() in space for _ in range(20))
    assert len(Source(20, pool=PROGRAMS[:0], seed=0).sample(mask=(5, None))) == 5


def test_a_pool_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="more than max_length=5"):
        Source(5, pool=PROGRAMS)


def test_copies_are_equal_and_others_are_not():
    space = Source(100, pool=PROGRAMS)
    for clone in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert clone == space
        assert hash(clone) == hash(space)
        assert clone.sample() in PROGRAMS
    assert space != Source(101, pool=PROGRAMS)
    assert space != Source(100)
    assert space != gymnasium.spaces.Text(100)


def test_copies_go_on_with_the_same_random_stream():
    space = Source(100, pool=PROGRAMS, seed=1)
    space.sample()
    clone = copy.deepcopy(space)
    assert [space.sample() for _ in range(20)] == [clone.sample() for _ in range(20)]


def test_the_representation_is_short():
    assert repr(Source(65536, pool=PROGRAMS)) == "Source(max_length=65536)"


def test_batches_are_tuples_of_texts():
    batch = batch_space(Source(100, pool=PROGRAMS), 3)
    assert isinstance(batch, Tuple)
    assert batch.sample() in batch


def test_shared_memory_is_refused_with_the_fix():
    with pytest.raises(CustomSpaceError, match="shared_memory=False"):
        create_shared_memory(Source(10), n=2)


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
