"""The examples in the docstrings are run."""

import doctest
from importlib import import_module

import pytest

from atlas_gym.tasks.registry import BUILT_IN

MODULES = [
    "atlas_gym.envs.spaces",
    "atlas_gym.tasks.answer",
    *(place.partition(":")[0] for place in BUILT_IN.values()),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    results = doctest.testmod(import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
