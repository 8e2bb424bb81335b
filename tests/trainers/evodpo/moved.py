"""A tiny policy whose adapters have all moved, each elsewhere."""

import torch

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from tests.tiny_model import save_tiny_model


def moved_policy(folder):
    policy = Policy.load(save_tiny_model(folder), dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8))
    policy.add("candidate-1", copy_of=POLICY)
    generator = torch.Generator().manual_seed(5)
    for name in (POLICY, REFERENCE, "candidate-1"):
        for tensor in policy.tensors(name).values():
            tensor.data.normal_(0.0, 0.2, generator=generator)
    return policy
