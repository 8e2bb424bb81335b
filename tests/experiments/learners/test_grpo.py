"""GRPO's reward, and two steps with the embedded model, for real."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym import make_task
from atlas_gym.tasks.registry import BUILT_IN
from experiments.learners.grpo import COPY, FAILED, GradedReward, graded, halves, train
from experiments.learners.ledger import Ledger, Trial

TRIAL = Trial("ATLAS-Bandit-v0", 0, 8, constants={"horizon": 60, "replicas": 1})

SCORES = st.floats(-10.0, -1e-3)


@given(SCORES, SCORES, SCORES)
def test_failed_copied_worse_and_better_programs_are_in_this_order(score, other, parent):
    low, high = sorted((score, other))
    worst = graded(None, parent, False)
    copy = graded(parent, parent, False)
    assert worst == FAILED < copy == COPY == graded(score, parent, True)
    rewards = [graded(value, parent, False) for value in (low, high)]
    assert all(reward == COPY or -0.5 <= reward <= 1.0 for reward in rewards)
    if parent not in (low, high):
        assert rewards[0] <= rewards[1]
        assert all(
            (reward > 0) == (value > parent) for reward, value in zip(rewards, (low, high), strict=True)
        )
        assert min(rewards) > copy


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_a_prompt_is_the_start_up_to_its_last_assignment(env_id):
    start = make_task(env_id).starts["named"]
    head, tail = halves(start)
    assert start.startswith(head)
    assert start.endswith(tail)
    assert head.endswith(" =")
    assert "return" in tail


def test_a_start_without_assignments_is_rewritten_at_its_return():
    assert halves("def f(x):\n    return x\n") == ("def f(x):\n    return", "\n")
    with pytest.raises(ValueError, match="neither"):
        halves("def f(x): ...\n")


def test_a_parent_without_loss_is_no_division_by_zero():
    assert graded(-0.25, 0.0, False) == -0.25


def test_every_completion_is_a_candidate_and_tokens_are_counted():
    with Ledger(TRIAL) as ledger:
        reward = GradedReward(ledger)
        own = " context @ theta + alpha * bonus"
        found = reward(
            [own, " nobody", " context @ theta", " context @ theta\n    junk("], [[1, 2], [3], [4], [5]]
        )
        assert (ledger.candidates, ledger.tokens) == (4, 5)
    assert found[0] == found[3] == COPY
    assert found[1] == FAILED
    assert found[2] > COPY


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_steps_spend_two_groups():
    with Ledger(TRIAL) as ledger:
        log = train(ledger, "embedded", steps=2, group=4, tokens=16)
        assert ledger.candidates == 8
        assert ledger.tokens > 8
    assert len(log) == 2
    for entry in log:
        assert FAILED <= entry["reward"] <= 1.0
