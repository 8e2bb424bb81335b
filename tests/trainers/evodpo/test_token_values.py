from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.models.policy import POLICY
from atlas_gym.trainers.evodpo import token_values as module
from atlas_gym.trainers.evodpo.packing import pack_tree, tree_logits
from atlas_gym.trainers.evodpo.token_values import completion_log_probs, token_values
from tests.tiny_model import save_tiny_model, tuned_policy

# Completions that part at their first token, at a later one, and not at all but for their end.
BRANCHES = [([1, 2, 3], [4, 5, 6]), ([1, 2, 3], [4, 5]), ([1, 2, 3], [7, 5]), ([1, 2], [9]), ([1, 2], [3, 8])]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return tuned_policy(save_tiny_model(tmp_path_factory.mktemp("tiny")))


def by_definition(model, tree):
    """The same from the logits of all positions."""
    logits = tree_logits(model, tree)[tree["rows"]]
    shares = logits.softmax(-1)
    return (
        torch.log(shares.gather(1, tree["targets"][:, None])[:, 0]),
        torch.distributions.Categorical(logits=logits).entropy(),
        logits.mean(-1),
        logits.argmax(-1) == tree["targets"],
    )


def gradients(policy, log_probs):
    # Losses weigh tokens differently, up and down.
    loss = (log_probs * torch.linspace(-1.0, 2.0, len(log_probs))).sum()
    return torch.autograd.grad(loss, list(policy.tensors(POLICY).values()))


letters = st.lists(st.integers(1, 3), min_size=1, max_size=6)


@given(
    branches=st.lists(st.tuples(letters, letters), min_size=1, max_size=7) | st.just(BRANCHES),
    rows=st.integers(1, 9),
)
def test_values_and_gradients_are_those_of_all_logits(policy, branches, rows):
    tree = pack_tree(branches)
    expected = by_definition(policy.model, tree)
    with mock.patch.object(module, "_ROWS", rows):
        found = token_values(policy.model, tree)
    for value, other in zip(found, expected, strict=True):
        torch.testing.assert_close(value, other, atol=1e-5, rtol=1e-5)
    assert [value.requires_grad for value in found] == [True, False, False, False]
    for value, other in zip(gradients(policy, found.log_probs), gradients(policy, expected[0]), strict=True):
        torch.testing.assert_close(value, other, atol=1e-5 * float(other.abs().max()) + 1e-6, rtol=1e-4)


@pytest.mark.parametrize("why", ["more is done to the logits", "the head is trained"])
def test_other_heads_are_asked_for_all_logits(policy, why, monkeypatch):
    tree = pack_tree(BRANCHES)
    expected = token_values(policy.model, tree)
    if why == "the head is trained":
        monkeypatch.setattr(policy.model.get_output_embeddings().weight, "requires_grad", True)
    else:
        monkeypatch.setattr(policy.model.config, "final_logit_softcapping", 30.0, raising=False)
    with mock.patch.object(module, "tree_logits", wraps=tree_logits) as asked:
        found = token_values(policy.model, tree)
    assert asked.call_count == 1
    for value, other in zip(found, expected, strict=True):
        torch.testing.assert_close(value, other, atol=1e-5, rtol=1e-5)


def test_a_certain_token_has_an_exact_gradient_in_bfloat16():
    """W_y − Σ π(v) W_v is a difference of two nearly equal numbers if π(y) is nearly 1."""
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(50, 8, generator=random).bfloat16()
    hidden = (4.0 * weight[3:4]).float()
    rows, targets = torch.tensor([0]), torch.tensor([3])

    def gradient(dtype):
        own = hidden.to(dtype, copy=True).requires_grad_()
        log_prob = module._Values.apply(own, weight.to(dtype), rows, targets)[0]
        assert log_prob.exp() > 0.9
        return torch.autograd.grad(log_prob.sum(), own)[0].float()

    exact = gradient(torch.float32)
    assert (gradient(torch.bfloat16) - exact).norm() < 0.05 * exact.norm()


def test_under_autocast_it_is_the_rounded_product(policy):
    tree = pack_tree(BRANCHES)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, expected = token_values(policy.model, tree), by_definition(policy.model, tree)
    assert found.log_probs.dtype == torch.float32
    torch.testing.assert_close(found.log_probs, expected[0], atol=1e-5, rtol=1e-5)


def test_the_head_is_as_it_was_even_after_an_error(policy):
    head = policy.model.get_output_embeddings()
    with module._silent(head):
        assert torch.equal(head(torch.ones(2)), torch.ones(2))
    assert "forward" not in vars(head)
    with pytest.raises(RuntimeError, match="lost"), module._silent(head):
        raise RuntimeError("lost")
    assert "forward" not in vars(head)


def test_a_completion_is_as_likely_as_its_tokens_together(policy):
    tree = pack_tree(BRANCHES)
    with torch.no_grad():
        tokens = by_definition(policy.model, tree)[0]
        found = completion_log_probs(policy.model, tree)
    expected = torch.stack([tokens[tree["owners"] == branch].sum() for branch in range(len(BRANCHES))])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
