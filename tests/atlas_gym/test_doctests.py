"""The examples in the docstrings are run."""

import doctest
from importlib import import_module

import pytest

from atlas_gym.tasks.registration import REGISTERED
from atlas_gym.tasks.registry import BUILT_IN, find_task

MODULES = [
    "atlas_gym.envs.spaces",
    *(entry.environment.split(":")[0] for entry in REGISTERED),
    *(find_task(name).__module__ for name in BUILT_IN),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    results = doctest.testmod(import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
