"""The local search and the tours that scores are measured against, beside shortest tours that are proven."""

import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atlas_gym.tasks.tours import (
    TourSearch,
    distance_matrix,
    short_tour,
    tour_length,
)
from tests.atlas_gym.tasks.exact_tours import shortest_of_all, shortest_proven


def cities(n, seed):
    return distance_matrix(np.random.default_rng(seed).random((n, 2)))


def shortened_by_a_reversal(distances, tour):
    """Whether some 2-opt move would shorten a tour, found by trying them all."""
    n, length = len(tour), tour_length(distances, tour)
    turned = [tour[k:] + tour[:k] for k in range(n)]
    for whole in turned:
        for size in range(2, n):
            if tour_length(distances, whole[:size][::-1] + whole[size:]) < length - 1e-9:
                return True
    return False


@given(n=st.integers(5, 9), seed=st.integers(0, 10**6))
@example(n=8, seed=336)
def test_no_reversal_shortens_what_the_search_leaves(n, seed):
    """With nine cities or fewer all others are near: the search must find any 2-opt move that helps.

    One pass may leave one: a move turns a stretch round, which allows moves at cities that it does not touch.
    """
    distances = cities(n, seed)
    search, before = TourSearch(distances, np.random.default_rng(seed).permutation(n).tolist()), None
    while search.tour != before:
        before = search.tour[:]
        search.improve(range(n))
    assert sorted(search.tour) == list(range(n))
    assert not shortened_by_a_reversal(distances, search.tour)


@given(n=st.integers(4, 40), seed=st.integers(0, 10**6))
def test_a_kick_swaps_two_stretches_and_names_the_cities_at_its_cuts(n, seed):
    tour = np.random.default_rng(seed).permutation(n).tolist()
    search = TourSearch(cities(n, seed), tour)
    cut = search.kick(random.Random(seed))
    assert sorted(search.tour) == sorted(tour)
    before, after = (
        {frozenset(edge) for edge in zip(t, t[1:] + t[:1], strict=True)} for t in (tour, search.tour)
    )
    assert len(after - before) <= 3
    assert {city for edge in after - before for city in edge} <= set(cut)


@pytest.mark.parametrize("n", range(4, 9))
@pytest.mark.parametrize("seed", range(6))
def test_few_cities_get_the_shortest_of_all_tours(n, seed):
    distances = cities(n, seed)
    tour = short_tour(distances, 100, seed)
    assert sorted(tour) == list(range(n))
    assert tour_length(distances, tour) == pytest.approx(shortest_of_all(distances), rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_tours_of_thirty_cities_are_the_proven_shortest_or_nearly(seed):
    distances = cities(30, seed)
    excess = tour_length(distances, short_tour(distances, 120, seed)) / shortest_proven(distances) - 1
    assert -1e-12 <= excess < 0.005


@pytest.mark.slow
def test_tours_of_sixty_cities_are_within_a_tenth_of_a_percent_on_average():
    excess = []
    for seed in range(10):
        distances = cities(60, seed)
        excess.append(
            tour_length(distances, short_tour(distances, 240, seed)) / shortest_proven(distances) - 1
        )
    assert min(excess) > -1e-12
    assert np.mean(excess) < 0.001
    assert max(excess) < 0.01
