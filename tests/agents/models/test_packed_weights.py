import pytest
import torch
from torch import nn

from atlas_gym.agents.engines.engine import Request, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.layers import packed_weights
from atlas_gym.agents.models.policy import POLICY, Policy
from tests.agents.tiny import character_model, character_tokenizer

FLOAT32 = torch.backends.mkldnn.is_available()
# Without such instructions nothing is packed, and the answers are the same.
BFLOAT16 = FLOAT32 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
PACKED = [(torch.bfloat16, BFLOAT16), (torch.float32, FLOAT32)]


def layers(dtype=torch.bfloat16):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 64, bias=False)).to(dtype)


def inputs(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def is_packed(model):
    return ["forward" in vars(layer) for layer in model]


def distance(found, exact):
    return (found - exact).norm() / exact.norm()


@pytest.mark.parametrize(("dtype", "packs"), PACKED)
@pytest.mark.parametrize("shape", [(1, 64), (3, 64), (2, 2, 64), (2, 9, 64), (300, 64)])
@pytest.mark.parametrize("stride", [1, 2])
def test_answers_are_those_of_the_weights(dtype, packs, shape, stride):
    model, x = layers(dtype), inputs(*shape[:-1], 64 * stride, dtype=dtype)[..., ::stride]
    with torch.inference_mode():
        expected, exact = model(x), layers(torch.double)(x.double())
        with packed_weights(model):
            assert is_packed(model) == [packs, False, packs]
            found = model(x)
    assert distance(found, exact) < 1.5 * distance(expected, exact) + torch.finfo(torch.float32).eps
    assert is_packed(model) == [False] * 3


def test_weights_as_they_are_when_the_block_begins_and_none_of_it_behind_it():
    model, x = layers(), inputs(4, 64)
    with torch.no_grad():
        before = model(x)
        model[0].weight.mul_(2)
        with packed_weights(model):
            doubled = model(x)
        assert distance(doubled, model(x)) < 0.02 < distance(doubled, before)
        model[0].weight.div_(2)
        with pytest.raises(RuntimeError), packed_weights(model):
            model(inputs(4, 65))
        assert torch.equal(model(x), before)


@pytest.mark.parametrize(("dtype", "packs"), PACKED)
def test_a_policy_writes_with_them(dtype, packs):
    tokenizer = character_tokenizer()
    policy = Policy(character_model().to(dtype), tokenizer)
    head = policy.model.get_output_embeddings()
    engine = TransformersEngine(policy.base, tokenizer, Sampling(max_new_tokens=12), policy=policy)
    with engine.serving(POLICY) as generator:
        assert ("forward" in vars(head)) == packs
        (written,) = generator.generate([Request("ab\nc", n=3, seed=5)])
    assert [completion.tokens > 0 for completion in written] == [True] * 3
    assert "forward" not in vars(head)
