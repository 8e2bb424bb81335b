"""One fork server and one thread of torch for all Burgers tests; without torch they are skipped."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

from atlas_gym.evaluation import ConfinedEvaluator


class NeedsTorch(pytest.Module):
    """A module that is not even imported."""

    def collect(self) -> NoReturn:
        pytest.skip("needs the extra `burgers`", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return NeedsTorch.from_parent(parent, path=module_path) if find_spec("torch") is None else None


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="package")
def evaluator() -> Iterator[ConfinedEvaluator]:
    with ConfinedEvaluator() as running:
        yield running
