"""Rows of tries against separate sequences, and what the head makes of them against its definition."""

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.models.policy import POLICY
from atlas_gym.trainers.dpo import likelihoods
from atlas_gym.trainers.dpo.likelihoods import log_likelihoods, logits, token_values
from atlas_gym.trainers.dpo.packed import Line, pack, rows, width
from tests.tiny_model import save_tiny_model, tuned_policy

# Completions that part at their first token, at a later one, and not at all but for their end.
BRANCHES = [([1, 2, 3], [4, 5, 6]), ([1, 2, 3], [4, 5]), ([1, 2, 3], [7, 5]), ([1, 2], [9]), ([1, 2], [3, 8])]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return tuned_policy(save_tiny_model(tmp_path_factory.mktemp("tiny")))


ways = pytest.mark.parametrize("even", [False, True])


def one_row(branches):
    return rows(Line(branches), [Line(branches).order])


def even_rows(branches, more=(0, 0)):
    own = Line(branches)
    wide = width([own])
    return rows(own, own.rows(wide), wide, more)


makers = pytest.mark.parametrize("make", [one_row, even_rows, lambda branches: even_rows(branches, (3, 40))])


def test_in_a_row_a_prompt_stands_once_and_positions_restart():
    found = one_row([([1, 2, 3], [6, 7, 8]), ([1, 2, 3], [4, 5]), ([9], [9])])
    assert found.inputs["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9, 9]]
    assert found.inputs["position_ids"].tolist() == [[0, 1, 2, 3, 4, 3, 4, 5, 0, 1]]
    assert found.inputs["ends"].tolist() == [[8, 8, 8, 5, 5, 8, 8, 8, 10, 10]]
    predicted = zip(found.places.tolist(), found.targets.tolist(), found.owners.tolist(), strict=True)
    assert list(predicted) == [(2, 6, 0), (5, 7, 0), (6, 8, 0), (2, 4, 1), (3, 5, 1), (8, 9, 2)]


def test_even_rows_are_of_one_width_and_filled():
    packing = pack([([n] * n, [1]) for n in (3, 70, 65, 9, 130, 62, 30)], 256, even=True)
    shapes = [tuple(each.inputs["input_ids"].shape) for each in packing.passes]
    assert shapes == [(1, 256), (1, 256)]


def alone(model, prompt, completion):
    """Log-probabilities of a completion's tokens the ordinary way: one sequence, no packing."""
    ids = torch.tensor([[*prompt, *completion]])
    log_probs = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
    return log_probs.gather(1, torch.tensor(completion)[:, None])[:, 0]


# A small alphabet, so that prompts are often beginnings of each other and of completions.
letters = st.lists(st.integers(1, 3), min_size=1, max_size=6)
branches = st.lists(st.tuples(letters, letters), min_size=1, max_size=7)


@ways
@given(branches=branches | st.just(BRANCHES), limit=st.integers(1, 200))
def test_packed_log_probabilities_and_gradients_equal_those_of_separate_sequences(
    policy, even, branches, limit
):
    with policy.learning() as learner:
        separate = [alone(policy.model, prompt, completion).sum() for prompt, completion in branches]
        packing = pack(branches, limit, even)
        found = [each.per_branch(token_values(policy.model, each)[0]) for each in packing.passes]
        own = torch.cat(found)[packing.places]
        torch.testing.assert_close(own, torch.stack(separate), atol=1e-4, rtol=1e-5)
        expected, computed = (gradients(learner, values) for values in (torch.stack(separate), own))
    for value, other in zip(computed, expected, strict=True):
        torch.testing.assert_close(value, other, atol=1e-5 * (1.0 + float(other.abs().max())), rtol=1e-4)
    with policy.using(POLICY) as model:
        sums = log_likelihoods(model, branches, even)
    assert sums == pytest.approx([values.item() for values in separate], abs=1e-4)


def gradients(learner, log_probs):
    # Losses weigh completions differently, up and down.
    loss = (log_probs * torch.linspace(-1.0, 2.0, len(log_probs))).sum()
    return torch.autograd.grad(loss, learner.rounded)


@ways
@given(branches=branches, limit=st.integers(1, 200))
def test_no_pass_is_larger_than_allowed_and_each_branch_is_packed_once(even, branches, limit):
    packing = pack(branches, limit, even)
    longest = max(len(prompt) + len(completion) for prompt, completion in branches)
    alone = 64 if even else longest
    assert max(each.inputs["input_ids"].numel() for each in packing.passes) <= max(limit, alone)
    distinct = {(tuple(prompt), tuple(completion)) for prompt, completion in branches}
    assert sum(len(each.lengths) for each in packing.passes) == len(distinct)
    assert len(packing.places) == len(branches)


def by_definition(model, each):
    """The values from the logits of all places."""
    found = logits(model, each)
    return (
        torch.log(found.softmax(-1).gather(1, each.targets[:, None])[:, 0]),
        torch.distributions.Categorical(logits=found).entropy(),
    )


@makers
@pytest.mark.parametrize("rows", [1, 2, 64])
def test_values_are_those_of_all_logits(policy, rows, make):
    with policy.learning(), mock.patch.object(likelihoods, "chunk", return_value=rows):
        found = token_values(policy.model, make(BRANCHES))
        for value, other in zip(found, by_definition(policy.model, make(BRANCHES)), strict=True):
            torch.testing.assert_close(value, other, atol=1e-5, rtol=1e-5)
    assert [value.requires_grad for value in found] == [True, False]
    assert "forward" not in vars(policy.model.get_output_embeddings())


def test_a_certain_token_has_an_exact_gradient_in_bfloat16():
    """W_y − Σ π(v) W_v is a difference of two nearly equal numbers if π(y) is nearly 1."""
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(50, 8, generator=random).bfloat16()
    hidden = (4.0 * weight[3:4]).float()

    def gradient(dtype):
        own = hidden.to(dtype, copy=True).requires_grad_()
        log_prob = likelihoods._Head.apply(own, weight.to(dtype), torch.tensor([3]))[0]
        assert log_prob.exp() > 0.9
        return torch.autograd.grad(log_prob.sum(), own)[0].float()

    exact = gradient(torch.float32)
    assert (gradient(torch.bfloat16) - exact).norm() < 0.05 * exact.norm()
