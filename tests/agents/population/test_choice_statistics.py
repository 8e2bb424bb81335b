from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.population.choice_statistics import ChoiceStatistics
from atlas_gym.seeding import stream


def test_weights_are_the_shrunken_rate_of_improvement():
    tally = ChoiceStatistics(decay=1.0)
    assert tally.weight("a") == pytest.approx(0.5 / 4)
    for improved in (True, False, True):
        tally.add("a", improved)
    assert tally.weight("a") == pytest.approx(2.5 / 7)


def test_old_trials_count_less():
    tally = ChoiceStatistics(decay=0.5)
    tally.add("a", True)
    tally.add("a", False)
    assert tally.weight("a") == pytest.approx((0.5 + 0.5) / (1.5 + 4))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30), st.floats(0.05, 1))
def test_draws_follow_weight_prior_and_the_uniform_share(trials, uniform):
    tally = ChoiceStatistics(decay=1.0, uniform=uniform)
    for choice, improved in trials:
        tally.add(choice, improved)
    weights = [tally.weight(choice) * prior for choice, prior in zip("abc", (1, 2, 0), strict=True)]
    draws = Counter(tally.choose("abc", stream(3, draw), prior=(1, 2, 0)) for draw in range(400))
    expected = (1 - uniform) * weights[0] / sum(weights) + uniform / 3
    assert draws[2] == 0
    assert draws[0] / 400 == pytest.approx(expected, abs=5 * 0.025)
