"""One registered environment after the other, and the evaluator that they share."""

import gymnasium as gym
import pytest

from atlas_gym.evaluation.evaluator import shared_evaluator
from tests.atlas_gym.envs.registered import IDS, QUICK, marks


@pytest.fixture(params=[pytest.param(env_id, marks=marks(env_id)) for env_id in IDS])
def env_id(request):
    return request.param


@pytest.fixture(scope="module")
def keep_evaluators():
    """Hold on to the evaluator, so that its processes start once and not once per test."""
    evaluator = shared_evaluator("default")
    yield
    evaluator.close()


@pytest.fixture
def env(env_id):
    env = gym.make(env_id, **QUICK[env_id])
    yield env
    env.close()
