import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.engines.engine import Request, Sampling
from atlas_gym.agents.engines.sampling import Sampler, deviation_weights, draw, first_tokens, truncate
from tests.agents.constants import with_constants
from tests.agents.tiny import character_tokenizer

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


@given(st.lists(probability, min_size=1, max_size=6), probability)
def test_deviation_weights_are_those_of_the_first_deviation(copying, uniform):
    everywhere = torch.ones(1, len(copying), dtype=torch.bool)
    chances = torch.tensor([copying], dtype=torch.float64)
    weights = deviation_weights(chances, uniform, everywhere, ~everywhere)[0].tolist()
    exact = [math.prod(copying[:j]) * (1 - p) for j, p in enumerate(copying)]
    even = 1 / len(copying)
    if sum(exact) < 1e-9:
        return
    expected = [(1 - uniform) * q / sum(exact) + uniform * even for q in exact]
    assert weights == pytest.approx(expected, abs=1e-6)


def test_a_certain_copy_may_deviate_wherever_there_is_a_place():
    places = torch.tensor([[False, True, True, True, True], [True] * 5])
    nowhere = torch.zeros_like(places)
    weights = deviation_weights(torch.ones(2, 5, dtype=torch.float64), 0.0, places, nowhere)
    assert weights.tolist() == [[0, 0.25, 0.25, 0.25, 0.25], [0.2] * 5]


def test_the_uniform_part_leaves_out_the_inside_of_names_unless_there_is_nothing_else():
    within = torch.tensor([[False, True, True, False], [True] * 4])
    copying = torch.tensor([[0.0, 1.0, 1.0, 1.0]] * 2, dtype=torch.float64)
    weights = deviation_weights(copying, 0.5, torch.ones(2, 4, dtype=torch.bool), within)
    assert weights.tolist() == [[0.75, 0, 0, 0.25], [0.625, 0.125, 0.125, 0.125]]
    (sample,) = begin(Request("a b", avoid="bab(a"), Sampling())
    assert sample.within == [True, True, True, False, False]


def begin(request, sampling):
    return Sampler(character_tokenizer(), 6, sampling).begin(0, request, [0])


def first(request, logits, top_k, n=40_000):
    """First tokens that samples draw from these logits, and how much of the parent each keeps."""
    sampling = with_constants(Sampling, temperature=1.0, top_k=top_k, uniform_deviation=0.0)
    sample, line_end = begin(request, sampling)[0], torch.tensor([False] * 4 + [True] * 2)
    uniforms = torch.rand(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    samples = torch.zeros(n, dtype=torch.long)
    return first_tokens(torch.tensor([logits]), [sample], samples, uniforms, line_end, sampling)


def test_the_token_that_copies_is_not_drawn_where_a_sample_deviates():
    parent = [0, 1]  # "ab"
    kept, drawn = first(Request("a", avoid="ab"), [[1.0, 0.5, 0.0, 0.0, 0.2, 0.1]] * 3, 6)
    for place, banned in ((0, {parent[0]}), (1, {parent[1]}), (2, {4, 5})):
        own = drawn[kept == place]
        left = torch.tensor([1.0, 0.5, 0.0, 0.0, 0.2, 0.1]).exp()
        left[list(banned)] = 0
        assert torch.bincount(own, minlength=6) / len(own) == pytest.approx(left / left.sum(), abs=0.06)
    copying = torch.tensor([1.0, 0.5, 0.0, 0.0, 0.2, 0.1]).softmax(0)
    chance = float(1 - copying[0])
    through = float(copying[0] * copying[1] * copying[4:].sum())
    assert float((kept == 0).float().mean()) == pytest.approx(chance / (1 - through), abs=0.03)


def test_where_truncation_leaves_only_the_copy_the_likeliest_other_token_is_drawn():
    kept, drawn = first(
        Request("a", avoid="a"), [[9.0, 3.0, 2.0, 1.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0, 9.0, 8.0]], 2, 50
    )
    assert {(0, 1), (1, 3)} >= set(zip(kept.tolist(), drawn.tolist(), strict=True))
