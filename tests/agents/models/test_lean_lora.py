import pytest
import torch
from peft.tuners.lora import Linear

from atlas_gym.agents.models.layers import LeanLinear
from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.models.settings import LoraSettings
from tests.tiny_model import save_tiny_model, tuned_policy


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return tuned_policy(save_tiny_model(tmp_path_factory.mktemp("tiny")))


def answers(layer, forward, x):
    """The layer's output and the gradients of its input and its adapter."""
    x = x.clone().requires_grad_()
    sources = (x, layer.lora_A[POLICY].weight, layer.lora_B[POLICY].weight)
    output = forward(layer, x)
    weights = torch.linspace(-1.0, 1.0, output.numel()).view(output.shape).to(output.dtype)
    return [output, *torch.autograd.grad((output * weights).sum(), sources)]


def test_values_and_gradients_are_those_of_peft(policy):
    layer = policy.model.get_base_model().model.layers[0].mlp.up_proj
    assert type(layer) is LeanLinear
    x = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    for lean, stock in zip(
        answers(layer, LeanLinear.forward, x), answers(layer, Linear.forward, x), strict=True
    ):
        assert lean.dtype == stock.dtype
        torch.testing.assert_close(lean, stock, atol=1e-5, rtol=1e-5)


def test_in_bfloat16_it_is_as_near_to_float32_as_peft(tmp_path):
    folder = save_tiny_model(tmp_path, torch.bfloat16)
    policy = Policy.load(folder, dtype=torch.bfloat16, lora=LoraSettings(rank=4, alpha=8))
    layer = policy.model.get_base_model().model.layers[0].mlp.up_proj
    layer.lora_B[POLICY].weight.data.normal_(0.0, 0.1, generator=torch.Generator().manual_seed(1))
    x = torch.randn(3, 5, 32, generator=torch.Generator().manual_seed(0)).bfloat16()
    lean, stock = (answers(layer, kind.forward, x) for kind in (LeanLinear, Linear))
    layer.base_layer.float()
    for one, other, exact in zip(lean, stock, answers(layer, Linear.forward, x.float()), strict=True):
        assert one.dtype == other.dtype
        assert (one - exact).norm() < 1.5 * (other - exact).norm() + 0.004 * exact.norm()


def test_without_adapters_it_is_the_base_layer(policy):
    layer = policy.model.get_base_model().model.layers[0].self_attn.q_proj
    x = torch.ones(1, 2, 32)
    with policy.model.disable_adapter():
        assert torch.equal(layer(x), layer.base_layer(x))
    assert not torch.equal(layer(x), layer.base_layer(x))
