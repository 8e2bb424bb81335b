"""The examples in the docstrings are run."""

import doctest
from importlib import import_module

import pytest

from atlas_gym.registration import REGISTERED
from atlas_gym.tasks.registry import find_task, packaged_tasks

MODULES = [
    "atlas_gym.spaces",
    *(entry.environment.split(":")[0] for entry in REGISTERED),
    *(find_task(name).__module__ for name in packaged_tasks()),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    results = doctest.testmod(import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
