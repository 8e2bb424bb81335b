"""The examples in the docstrings are run."""

import doctest
from importlib import import_module

import pytest

from atlas_gym.tasks.registration import REGISTERED

MODULES = ["atlas_gym.envs.spaces", *(entry.environment.split(":")[0] for entry in REGISTERED)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    results = doctest.testmod(import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
