"""The tiny model that phases are tried on."""

import pytest
import torch

from atlas_gym.agents.models.policy import Policy
from atlas_gym.agents.models.settings import LoraSettings
from tests.tiny_model import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def policy(folder):
    return Policy.load(folder, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8))
