"""A pool of two stays what it was through thousands of programs, one in five hostile."""

import pytest

from tests.hostile.soak import soak


@pytest.mark.parametrize(
    "evaluations", [80, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_pool_survives_unchanged(evaluations):
    report = soak(evaluations)
    assert set(report.honest) == {"ok"}
    assert len(report.honest_scores) == 1
    assert sum(report.hostile.values()) + sum(report.honest.values()) == evaluations
    assert report.after.descriptors == report.before.descriptors
    assert report.after.processes == report.before.processes
    assert report.memory_growth <= 0.05
