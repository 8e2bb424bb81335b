"""One fork server and one thread of torch for all Burgers tests."""

from collections.abc import Iterator

import pytest
import torch

from atlas_gym.evaluation import ConfinedEvaluator


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="package")
def evaluator() -> Iterator[ConfinedEvaluator]:
    with ConfinedEvaluator() as running:
        yield running
