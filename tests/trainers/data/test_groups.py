"""The graded reward and what is made of it: groups and advantages."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.trainers.data.groups import (
    BEST,
    COPY,
    FAILED,
    WORST,
    CompletionGroup,
    build_groups,
    graded,
    group_of,
    why_no_groups,
)
from tests.trainers.samples import RECORD

SCORES = st.floats(-10.0, -1e-3)


@given(SCORES, SCORES, SCORES)
def test_failed_copied_worse_and_better_programs_are_in_this_order(score, other, parent):
    low, high = sorted((score, other))
    worst = graded(None, parent, False)
    copy = graded(parent, parent, False)
    assert worst == FAILED < copy == COPY == graded(score, parent, True)
    rewards = [graded(value, parent, False) for value in (low, high)]
    assert all(reward == COPY or WORST <= reward <= BEST for reward in rewards)
    if parent not in (low, high):
        assert rewards[0] <= rewards[1]
        assert all(
            (reward > 0) == (value > parent) for reward, value in zip(rewards, (low, high), strict=True)
        )
        assert min(rewards) > copy


def test_a_parent_without_loss_is_no_division_by_zero():
    assert graded(-0.25, 0.0, False) == -0.25


def answer(id_, score=None, prompt="prompt", completion=None, **fields):
    status = "error" if score is None else "ok"
    text = f" {id_}\n" if completion is None else completion
    return replace(RECORD, id=id_, score=score, status=status, prompt=prompt, completion=text, **fields)


def test_a_group_is_rewarded_against_its_parent():
    parent = RECORD.parent_score
    records = [
        answer(1),
        answer(2, parent),
        answer(3, 1.2 * parent),
        answer(4, 0.9 * parent),
        answer(5, 0.5 * parent, is_copy=True),
    ]
    group = group_of(records)
    assert group.rewards == pytest.approx((FAILED, COPY, -0.2, 0.1, COPY))
    assert (group.chosen, group.chosen_id) == (" 4\n", 4)
    assert (group.prompt, group.ids) == ("prompt", (1, 2, 3, 4, 5))


@given(st.lists(st.floats(FAILED, BEST), min_size=2, max_size=16))
def test_advantages_are_distances_to_the_groups_mean_and_not_scaled(rewards):
    group = CompletionGroup("p", ("x",) * len(rewards), tuple(rewards), tuple(range(len(rewards))))
    values = np.array(rewards)
    assert np.allclose(group.advantages, values - values.mean(), atol=1e-12)


def test_groups_whose_rewards_are_equal_say_nothing():
    parent = RECORD.parent_score
    records = [
        answer(1, prompt="all fail"),
        answer(2, prompt="all fail"),
        answer(3, 0.8 * parent, prompt="one"),
        answer(4, 0.8 * parent, prompt="a hair apart"),
        answer(5, 0.8 * parent * (1 + 1e-12), prompt="a hair apart"),
        answer(6, 0.8 * parent, prompt="telling"),
        answer(7, prompt="telling", completion=" 6\n"),
        answer(8, 0.8 * parent, prompt="telling", completion=" 6\n"),
    ]
    (group,) = build_groups(records, 9, np.random.default_rng(0))
    assert group.ids == (6, 7, 8)  # what was written twice counts twice
    assert build_groups(records[:5], 9, np.random.default_rng(0)) == []
    assert "3 prompts with 5 short enough completions" in why_no_groups(records[:5])


def test_one_prompt_on_two_instances_is_two_groups():
    records = [answer(i, score, island=i % 2) for i, score in enumerate((-0.1, -0.2, None, None))]
    assert [g.ids for g in build_groups(records, 9, np.random.default_rng(0))] == [(0, 1, 2, 3)]
    apart = build_groups(records, 9, np.random.default_rng(0), lambda record: record.island)
    assert [g.ids for g in apart] == [(0, 2), (1, 3)]


def test_too_many_groups_are_thinned_out_at_random():
    records = [answer(2 * i + j, (-0.1, None)[j], prompt=f"p{i}") for i in range(20) for j in range(2)]
    drawn = {
        tuple(g.prompt for g in build_groups(records, 5, np.random.default_rng(seed))) for seed in range(8)
    }
    assert {len(prompts) for prompts in drawn} == {5}
    assert len(drawn) > 1
