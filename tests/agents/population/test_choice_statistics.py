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


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=30), st.floats(0.05, 1))
def test_draws_follow_weight_and_the_uniform_share(trials, uniform):
    tally = ChoiceStatistics(decay=1.0, uniform=uniform)
    for choice, improved in trials:
        tally.add(choice, improved)
    weights = [tally.weight(choice) for choice in "ab"]
    draws = Counter(tally.choose("ab", stream(3, draw)) for draw in range(400))
    expected = (1 - uniform) * weights[0] / sum(weights) + uniform / 2
    assert draws[0] / 400 == pytest.approx(expected, abs=5 * 0.025)


def test_thompson_sampling_draws_what_paid_tries_what_is_untried_and_forgets():
    def share_of_good():
        return (
            sum(tally.sample({"good": 1, "bad": 1}, stream(3, draw)) == "good" for draw in range(400)) / 400
        )

    tally = ChoiceStatistics(decay=1.0, uniform=0.2)
    assert share_of_good() == pytest.approx(0.5, abs=5 * 0.025)
    expected_good = [tally.sample({"good": 5, "bad": 1}, stream(4, draw)) for draw in range(400)]
    assert expected_good.count("good") > 250
    for trial in range(60):
        tally.add("good", trial % 2 == 0)
        tally.add("bad", False)
    assert share_of_good() == pytest.approx(0.9, abs=5 * 0.015)  # the other has its part of the uniform share
    tally.forget("bad")
    assert 0.5 < share_of_good() < 0.89
