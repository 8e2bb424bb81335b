import numpy as np
import pytest

from atlas_gym.intervals import Interval, improvement_interval, mean_interval


def test_the_interval_is_students():
    """Three values 1, 2, 3: standard error 1/√3, t quantile of two degrees of freedom 4.3027."""
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.half_width == pytest.approx(4.302652729911275 / np.sqrt(3))
    assert (interval.low + interval.high) / 2 == pytest.approx(2.0)
    assert mean_interval(range(1, 7)).half_width == pytest.approx(
        2.5705818 * np.std(range(1, 7), ddof=1) / np.sqrt(6)
    )


def test_one_value_has_no_interval_and_none_no_mean():
    assert np.isnan(mean_interval([1.0]).half_width)
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])


def test_an_interval_says_its_ends_and_its_side():
    words = ("above", "below", "neither")
    assert f"{Interval(1.0, 0.5):+.1f}" == "+1.0 [+0.5, +1.5]"
    assert [Interval(mean, 0.5).in_words(*words) for mean in (1.0, -1.0, 0.2, 0.5)] == [*words, "neither"]
    assert mean_interval([1.0]).in_words(*words) == "neither"


def test_improvement_intervals_cover_the_truth():
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(1000):
        shared = rng.normal(size=12)
        baseline = -1.0 + 0.05 * shared + 0.02 * rng.normal(size=12)
        scores = -0.6 + 0.03 * shared + 0.02 * rng.normal(size=12)
        interval = improvement_interval(scores, baseline)
        hits.append(interval.low <= 0.4 <= interval.high)
    assert np.mean(hits) == pytest.approx(0.95, abs=0.025)
