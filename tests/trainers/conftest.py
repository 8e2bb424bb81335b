"""The tiny model that phases are tried on, and a run in small."""

import pytest
import torch

from agents.models.policy import Policy
from agents.models.settings import LoraSettings
from tests.tiny_model import save_tiny_model
from tests.trainers import small_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def policy(folder):
    return Policy.load(folder, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8))


@pytest.fixture(scope="module")
def config(folder):
    return small_runs.small_config(folder)


@pytest.fixture(scope="module")
def menu():
    with small_runs.menu():
        yield
