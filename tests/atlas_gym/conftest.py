"""What the tests of the whole package's folders share."""

from pathlib import Path

import pytest

from atlas_gym.evaluation import ConfinedEvaluator


@pytest.fixture
def homeless(monkeypatch):
    """A user whom the system does not know, as in a container that runs under a number."""

    def nobody_knows():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody_knows)


@pytest.fixture(scope="module")
def evaluator():
    with ConfinedEvaluator() as one:
        yield one
