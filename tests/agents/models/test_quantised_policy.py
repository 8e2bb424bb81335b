"""A policy above quantised weights; bitsandbytes has kernels for CPUs too."""

import dataclasses
import sys

import pytest
import torch

from atlas_gym.agents.engines.hf_transformers import TransformersGenerator
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.population.candidate import Proposal
from tests.tiny_model import save_tiny_model
from tests.trainers import small_phases

LORA = LoraSettings(rank=4, alpha=8, base="4bit")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), width=128)


def test_a_missing_package_is_an_error_that_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(ModuleNotFoundError, match=r"atlas-gym\[quantized\]"):
        Policy.load(folder, lora=LORA)


@pytest.mark.slow
@pytest.mark.filterwarnings("error:.*an autograd kernel was not registered")
@pytest.mark.parametrize("base", ["8bit", "4bit"])
def test_a_quantised_policy_learns_and_writes(folder, base):
    pytest.importorskip("bitsandbytes", reason="needs the extra `quantized`")
    policy = Policy.load(folder, dtype=torch.float32, lora=dataclasses.replace(LORA, base=base))
    full = Policy.load(folder, dtype=torch.float32, lora=dataclasses.replace(LORA, base="full"))
    assert policy.model.get_memory_footprint() < 0.6 * full.model.get_memory_footprint()
    result = small_phases.run(policy)
    assert result.steps[-1].loss < result.steps[0].loss
    assert policy.digest(POLICY) == policy.digest(REFERENCE)
    assert {tensor.dtype for tensor in policy.tensors(POLICY).values()} == {torch.float32}
    with policy.merged(POLICY) as model:
        texts = TransformersGenerator(model, policy.tokenizer).generate([Proposal("window =", 2)])
    assert len(texts[0]) == 2
