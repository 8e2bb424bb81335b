"""The examples in the docstrings are run."""

import doctest
from importlib import import_module

import pytest

from atlas_gym.tasks.registry import BUILT_IN
from tests.atlas_gym.envs.registered import marks


@pytest.mark.parametrize(
    "name",
    [
        "atlas_gym.envs.spaces",
        "atlas_gym.tasks.answer",
        *(pytest.param(place.partition(":")[0], marks=marks(env_id)) for env_id, place in BUILT_IN.items()),
    ],
)
def test_examples_hold(name):
    results = doctest.testmod(import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
