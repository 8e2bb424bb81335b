"""Shares and gains against hand-computed ones."""

from dataclasses import replace

import pytest

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.trainers.data.measures import mean_gain, measurements


def record(status="ok", score=-0.1, parent_score=-0.2, key="k", is_copy=False):
    return Candidate(
        id=0, round=1, island=0, origin="agent", style="edit_line", site="", parent_id=0, prompt="p",
        completion="c", program="", program_key=key, status=status, score=score if status == "ok" else None,
        parent_score=parent_score, is_copy=is_copy,
    )  # fmt: skip


def test_measurements_are_shares_and_means_over_what_passed():
    records = [
        replace(record(key="a"), metrics={"residual": 1.0}),
        replace(record(key="b"), metrics={"residual": 3.0}),
        replace(record("error"), metrics={}),
        replace(record(key="a"), metrics={"residual": 2.0}),
    ]
    found = measurements(records, ("residual", "unknown"))
    assert found == {"valid_share": 0.75, "distinct_share": 0.5, "residual": 2.0}


def test_a_failure_and_a_harm_gain_nothing_and_a_large_gain_is_clipped():
    answers = [record("error"), record(score=-0.9), record(score=-0.18), record(score=0.5)]
    assert mean_gain(answers) == pytest.approx(0.07 / 4)
