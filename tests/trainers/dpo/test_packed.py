"""Packed sequences against separate ones, and what the head makes of them against its definition."""

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.models.policy import POLICY
from atlas_gym.trainers.dpo import packed
from atlas_gym.trainers.dpo.packed import log_likelihoods, pack, pack_tree, token_values, tree_logits
from tests.tiny_model import save_tiny_model, tuned_policy

# Completions that part at their first token, at a later one, and not at all but for their end.
BRANCHES = [([1, 2, 3], [4, 5, 6]), ([1, 2, 3], [4, 5]), ([1, 2, 3], [7, 5]), ([1, 2], [9]), ([1, 2], [3, 8])]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return tuned_policy(save_tiny_model(tmp_path_factory.mktemp("tiny")))


def test_a_tree_is_the_prompt_once_and_positions_restart():
    tree = pack_tree([([1, 2, 3], [4, 5]), ([1, 2, 3], [6, 7, 8])])
    assert tree["input_ids"].tolist() == [[1, 2, 3, 6, 7, 8, 4, 5]]
    assert tree["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 3, 4]]
    assert tree["positions"].tolist() == [2, 3, 4, 6]
    assert tree["rows"].tolist() == [0, 3, 0, 1, 2]
    assert tree["targets"].tolist() == [4, 5, 6, 7, 8]
    assert tree["owners"].tolist() == [0, 0, 1, 1, 1]
    sees = tree["attention_mask"][0, 0].int().tolist()
    assert sees[5] == [1, 1, 1, 1, 1, 1, 0, 0]
    assert sees[7] == [1, 1, 1, 0, 0, 0, 1, 1]


def alone(model, prompt, completion):
    """Log-probabilities of a completion's tokens the ordinary way: one sequence, no packing."""
    ids = torch.tensor([[*prompt, *completion]])
    log_probs = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
    return log_probs.gather(1, torch.tensor(completion)[:, None])[:, 0]


# A small alphabet, so that prompts are often beginnings of each other and of completions.
letters = st.lists(st.integers(1, 3), min_size=1, max_size=6)
branches = st.lists(st.tuples(letters, letters), min_size=1, max_size=7)


@given(branches=branches | st.just(BRANCHES), limit=st.integers(1, 40))
def test_packed_log_probabilities_and_gradients_equal_those_of_separate_sequences(policy, branches, limit):
    separate = [alone(policy.model, prompt, completion) for prompt, completion in branches]
    packing = pack(branches, limit)
    found = torch.cat([token_values(policy.model, tree).log_probs for tree in packing.trees])
    own = torch.cat([found[source] for source in packing.sources()])
    torch.testing.assert_close(own, torch.cat(separate), atol=1e-5, rtol=1e-5)
    expected, computed = (gradients(policy, values) for values in (torch.cat(separate), own))
    for value, other in zip(computed, expected, strict=True):
        torch.testing.assert_close(value, other, atol=1e-5 * (1.0 + float(other.abs().max())), rtol=1e-4)
    with torch.no_grad():
        sums = log_likelihoods(policy.model, branches, policy.device)
    assert sums == pytest.approx([values.sum().item() for values in separate], abs=1e-4)


def gradients(policy, log_probs):
    # Losses weigh tokens differently, up and down.
    loss = (log_probs * torch.linspace(-1.0, 2.0, len(log_probs))).sum()
    return torch.autograd.grad(loss, list(policy.tensors(POLICY).values()))


@given(branches=branches, limit=st.integers(1, 40))
def test_no_tree_is_larger_than_allowed_and_each_branch_is_packed_once(branches, limit):
    packing = pack(branches, limit)
    sizes = [tree["input_ids"].numel() for tree in packing.trees]
    longest = max(len(prompt) + len(completion) for prompt, completion in branches)
    assert max(sizes) <= max(limit, longest)
    distinct = {(tuple(prompt), tuple(completion)) for prompt, completion in branches}
    assert sum(int(tree["owners"][-1]) + 1 for tree in packing.trees) == len(distinct)
    assert len(packing.places) == len(branches)


def by_definition(model, tree):
    """The values from the logits of all positions."""
    logits = tree_logits(model, tree)[tree["rows"]]
    return (
        torch.log(logits.softmax(-1).gather(1, tree["targets"][:, None])[:, 0]),
        torch.distributions.Categorical(logits=logits).entropy(),
        logits.mean(-1),
        logits.argmax(-1) == tree["targets"],
    )


@pytest.mark.parametrize("rows", [1, 2, 64])
def test_values_are_those_of_all_logits(policy, rows):
    tree = pack_tree(BRANCHES)
    with mock.patch.object(packed, "_ROWS", rows):
        found = token_values(policy.model, tree)
    for value, other in zip(found, by_definition(policy.model, tree), strict=True):
        torch.testing.assert_close(value, other, atol=1e-5, rtol=1e-5)
    assert [value.requires_grad for value in found] == [True, False, False, False]
    assert "forward" not in vars(policy.model.get_output_embeddings())


@pytest.mark.parametrize("why", ["more is done to the logits", "the head is trained"])
def test_other_heads_are_asked_for_all_logits(policy, why, monkeypatch):
    tree = pack_tree(BRANCHES)
    expected = token_values(policy.model, tree)
    if why == "the head is trained":
        monkeypatch.setattr(policy.model.get_output_embeddings().weight, "requires_grad", True)
    else:
        monkeypatch.setattr(policy.model.config, "final_logit_softcapping", 30.0, raising=False)
    with mock.patch.object(packed, "tree_logits", wraps=tree_logits) as asked:
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
        log_prob = packed._Head.apply(own, weight.to(dtype), rows, targets)[0]
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
