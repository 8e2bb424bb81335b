"""One fork server for all Burgers tests, and hidden streams that are the same on every machine."""

from collections.abc import Iterator

import pytest
import torch

from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.evaluation.hidden_streams import SECRET_VARIABLE


@pytest.fixture(scope="package", autouse=True)
def fixed_streams() -> Iterator[None]:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_VARIABLE, "burgers tests")
        yield


@pytest.fixture(scope="package")
def evaluator() -> Iterator[ConfinedEvaluator]:
    with ConfinedEvaluator() as running:
        yield running
