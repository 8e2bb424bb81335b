from contextlib import nullcontext
from functools import partial

import pytest
import torch
from peft.tuners.lora import Linear

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from tests.tiny_model import save_tiny_model, tuned_policy


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return tuned_policy(save_tiny_model(tmp_path_factory.mktemp("tiny")))


def answers(policy, layer, x, lean):
    """The layer's output and the gradients of its input and its adapter."""
    x = x.clone().requires_grad_()
    with policy.learning() if lean else nullcontext():
        adapter = layer.held[:2] if lean else (layer.lora_A[POLICY].weight, layer.lora_B[POLICY].weight)
        output = (layer if lean else partial(Linear.forward, layer))(x)
        weights = torch.linspace(-1.0, 1.0, output.numel()).view(output.shape).to(output.dtype)
        return [output, *torch.autograd.grad((output * weights).sum(), (x, *adapter))]


def test_values_and_gradients_are_those_of_peft(policy):
    layer = policy.model.get_base_model().model.layers[0].mlp.up_proj
    x = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    for lean, stock in zip(*(answers(policy, layer, x, lean) for lean in (True, False)), strict=True):
        assert lean.dtype == stock.dtype
        torch.testing.assert_close(lean, stock, atol=1e-5, rtol=1e-5)


def test_without_adapters_it_is_the_base_layer(policy):
    layer = policy.model.get_base_model().model.layers[0].self_attn.q_proj
    x = torch.ones(1, 2, 32)
    with policy.model.disable_adapter():
        assert torch.equal(layer(x), layer.base_layer(x))
    assert not torch.equal(layer(x), layer.base_layer(x))


def test_the_adapter_in_use_is_left_as_it_was_found(policy):
    layer = policy.model.get_base_model().model.layers[0].self_attn.q_proj
    x = torch.ones(1, 2, 32)
    with torch.no_grad(), policy.learning():
        trained = layer(x)
        with policy.using(REFERENCE):
            assert not torch.equal(layer(x), trained)
        assert torch.equal(layer(x), trained)
    assert layer.held is None
