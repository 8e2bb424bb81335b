"""The measure of learning against counting by hand, and against the paired interval that it is a case of."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.intervals import mean_interval
from atlas_gym.trainers.data.comparison import compare
from tests.trainers.samples import RECORD


def sample(gain=None, key="k", is_copy=False):
    status = "error" if gain is None else "ok"
    score = None if gain is None else -0.2 + gain
    return replace(RECORD, status=status, score=score, parent_score=-0.2, program_key=key, is_copy=is_copy)


BASE = [[sample(), sample(0.0, is_copy=True), sample(0.005, "a"), sample(-0.1)], [sample()] * 4]
TUNED = [
    [sample(0.02, "a"), sample(0.02, "a"), sample(0.005, "b"), sample()],
    [sample(0.0), sample(), sample(), sample()],
]


def test_every_measure_counts_what_it_says():
    found = compare(BASE, TUNED, ["one", "two"], n=2)
    values = {name: (round(c.base, 6), round(c.tuned, 6)) for name, c in found.items()}
    assert values == {
        "validity": (3 / 8, 4 / 8),
        "best of 2": (0.0, 0.01),  # of the first two samples, over two prompts
        "quality .002": (0.5, 0.75),
        "yield .002": (1 / 8, 2 / 8),  # the same program twice counts once
        "quality .01": (0.0, 0.5),
        "yield .01": (0.0, 1 / 8),
    }
    assert found["yield .002"].ratio == pytest.approx(2.0)
    assert found["yield .01"].ratio == math.inf


shares = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=6)


@given(shares)
def test_with_equal_numbers_of_samples_the_interval_is_that_of_paired_differences(counts):
    def groups(side):
        return [[sample(0.0)] * row[side] + [sample()] * (4 - row[side]) for row in counts]

    found = compare(groups(0), groups(1), list(range(len(counts))))["validity"].difference
    expected = mean_interval([(tuned - base) / 4 for base, tuned in counts])
    assert found.mean == pytest.approx(expected.mean, abs=1e-12)
    assert found.half_width == pytest.approx(expected.half_width, abs=1e-12)


def test_prompts_of_one_instance_are_not_independent():
    """The same prompt posed twice says nothing new: the interval does not shrink."""
    once = compare(BASE, TUNED, ["one", "two"])["validity"].difference
    twice = compare(BASE * 2, TUNED * 2, ["one", "two"] * 2)["validity"].difference
    assert (twice.mean, twice.half_width) == pytest.approx((once.mean, once.half_width))
    assert math.isnan(compare(BASE, TUNED, ["one", "one"])["validity"].difference.half_width)


def test_the_intervals_hold_the_truth_nineteen_times_in_twenty():
    rng = np.random.default_rng(0)
    differences = ratios = 0
    for _ in range(200):
        rates = rng.uniform(0.1, 0.5, 12)
        sides = [
            [[sample(0.0) if rng.random() < r + rise else sample() for _ in range(6)] for r in rates]
            for rise in (0, 0.2)
        ]
        found = compare(*sides, list(range(12)), margins=())["validity"]
        differences += found.difference.low <= 0.2 <= found.difference.high
        truth = 1 + 0.2 / rates.mean()
        ratios += found.ratio / found.ratio_factor <= truth <= found.ratio * found.ratio_factor
    assert 180 <= differences <= 199
    assert 180 <= ratios <= 199
