from unittest import mock

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma3TextConfig, Qwen2Config

from atlas_gym.agents.models import fused as module
from atlas_gym.agents.models.fused import fused
from atlas_gym.agents.models.policy import POLICY
from tests.tiny_model import save_tiny_model, tuned_policy

IDS = torch.arange(12).view(2, 6)
SIZES = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip


@pytest.mark.parametrize("config", [Qwen2Config(**SIZES), Gemma3TextConfig(**SIZES, head_dim=4)])
def test_a_model_answers_the_same_and_is_itself_again(config):
    """The first with biases."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
        expected = model(input_ids=IDS).logits
        with mock.patch.object(module, "linear", wraps=module.linear) as product, fused(model):
            found = model(input_ids=IDS).logits
        assert product.call_count == 2 * 2  # a product each for attention and MLP
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        assert torch.equal(model(input_ids=IDS).logits, expected)


def test_merged_weights_are_the_ones_that_are_joined(tmp_path):
    policy = tuned_policy(save_tiny_model(tmp_path))
    with torch.no_grad():
        with policy.merged(POLICY) as model:
            expected = model(input_ids=IDS).logits
            with fused(model):
                found = model(input_ids=IDS).logits
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
        with policy.using(POLICY) as model:
            torch.testing.assert_close(model(input_ids=IDS).logits, expected, atol=1e-3, rtol=1e-3)
