import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.engines.sampling import copies, deviation_weights, draw, truncate, without

probability = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=9), st.integers(0, 12), st.floats(0.1, 3))
def test_truncation_keeps_the_likeliest_tokens_and_renormalises(logits, top_k, temperature):
    weights, tokens = truncate(torch.tensor([logits]), temperature, top_k)
    kept = len(logits) if top_k == 0 else min(top_k, len(logits))
    assert tokens.shape == (1, kept)
    assert weights.sum().item() == pytest.approx(1)
    chosen = [logits[token] for token in tokens[0].tolist()]
    assert chosen == pytest.approx(sorted(logits, reverse=True)[:kept], abs=1e-5)
    if kept > 1 and weights[0, 1] > 1e-12:
        assert math.log(weights[0, 0] / weights[0, 1]) == pytest.approx(
            (chosen[0] - chosen[1]) / temperature, abs=1e-4
        )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), st.floats(0, 1, exclude_max=True))
def test_a_draw_inverts_the_distribution_function(weights, uniform):
    chosen = int(draw(torch.tensor([weights], dtype=torch.float64), torch.tensor([uniform])))
    goal = torch.tensor(uniform).double().item() * sum(weights)
    assert weights[chosen] > 0
    assert sum(weights[:chosen]) <= goal + 1e-9
    assert goal <= sum(weights[: chosen + 1]) + 1e-9


def test_a_draw_at_the_upper_end_stays_on_a_positive_weight():
    weights = torch.tensor([[0.1] * 10 + [0.0, 0.0]], dtype=torch.float64)
    assert int(draw(weights, torch.tensor([1.0]))) == 9


@given(st.lists(probability, min_size=1, max_size=6), probability)
def test_deviation_weights_are_those_of_the_first_deviation(copying, uniform):
    weights = deviation_weights(torch.tensor(copying, dtype=torch.float64), uniform).tolist()
    exact = [math.prod(copying[:j]) * (1 - p) for j, p in enumerate(copying)]
    even = 1 / len(copying)
    if sum(exact) < 1e-9:
        return
    expected = [(1 - uniform) * q / sum(exact) + uniform * even for q in exact]
    assert weights == pytest.approx(expected, abs=1e-6)


def test_a_certain_copy_may_deviate_anywhere():
    assert deviation_weights(torch.ones(4, dtype=torch.float64), 0.0).tolist() == [0.25] * 4


def test_a_copy_goes_on_with_the_parents_tokens_and_with_whatever_ends_its_line():
    line_end = torch.tensor([False, False, True, True])
    assert copies([3, 0], line_end).nonzero().tolist() == [[0, 3], [1, 0], [2, 2], [2, 3]]
    assert copies([], line_end).nonzero().tolist() == [[0, 2], [0, 3]]


def test_a_banned_token_leaves_the_others_in_proportion_and_never_nothing():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    weights, tokens = truncate(logits.unsqueeze(0), 1.0, 2)
    only_best = torch.tensor([True, False, False, False])
    left, choices = without(weights[0], tokens[0], only_best, logits)
    assert choices[int(draw(left.unsqueeze(0), torch.tensor([0.5])))] == 1
    both = torch.tensor([True, True, False, False])
    left, choices = without(weights[0], tokens[0], both, logits)
    assert choices[int(draw(left.unsqueeze(0), torch.tensor([0.5])))] == 2
