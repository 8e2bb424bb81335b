"""When a phase's training ends: K̂L grown by the target, the gate's budget, or all epochs."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.models.policy import POLICY
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.dpo.train import batch_order
from tests.trainers.small_phases import SETTINGS, WORSE, run

EVERY_STEP = dataclasses.replace(SETTINGS, epochs=4, checks=5)
WIDE = GateSettings(max_kl=100.0)


def test_training_ends_at_the_target_and_keeps_the_last_checkpoints(policy):
    policy.add("before", copy_of=POLICY)
    free = run(policy, WORSE, EVERY_STEP)
    policy.copy("before", POLICY)
    assert free.kls == ()
    target = (free.checkpoints[0].kl + free.checkpoints[-1].kl) / 3
    result = run(policy, WORSE, dataclasses.replace(EVERY_STEP, target_kl=target), gate=WIDE)
    steps, kls = zip(*result.kls, strict=True)
    assert steps == tuple(range(1, len(steps) + 1))
    assert kls[-1] >= target > max(kls[:-1])
    assert len(result.steps) == steps[-1] < len(free.steps)
    assert [c.step for c in result.checkpoints] == list(steps[-3:])
    # Along other prompts than the gate's.
    assert all(
        c.kl != pytest.approx(kl, rel=1e-4) for c, kl in zip(result.checkpoints, kls[-3:], strict=True)
    )
    assert [s.loss for s in result.steps] == [s.loss for s in free.steps[: len(result.steps)]]


@pytest.mark.parametrize(("checks", "steps"), [(1, [5, 10, 15]), (2, [2, 5, 8, 10, 12, 15, 18])])
def test_looks_are_spaced_over_each_epoch(policy, checks, steps):
    settings = dataclasses.replace(EVERY_STEP, checks=checks, target_kl=99.0)
    assert [step for step, _ in run(policy, WORSE, settings, gate=WIDE).kls] == steps


def test_after_a_refusal_the_target_counts_from_where_the_policy_is(policy):
    first = run(policy, WORSE, dataclasses.replace(EVERY_STEP, target_kl=1e-3), gate=WIDE)
    assert first.kls[-1][1] >= 1e-3
    second = run(policy, WORSE, dataclasses.replace(EVERY_STEP, target_kl=1e-3), gate=WIDE, phase=2)
    assert second.kls[-1][1] >= first.checkpoints[-1].kl + 0.5e-3  # G_k is another one
    assert not second.promoted


def test_training_ends_at_the_budget_whatever_the_target(policy):
    settings = dataclasses.replace(EVERY_STEP, target_kl=99.0)
    result = run(policy, WORSE, settings, gate=GateSettings(max_kl=1e-3))
    kls = [kl for _, kl in result.kls]
    assert kls[-1] >= 1e-3 > max(kls[:-1], default=0.0)
    assert len(result.steps) < 20


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    size=st.integers(1, 6),
    seed=st.integers(0, 9),
)
def test_the_order_is_a_permutation_that_follows_its_seed(sizes, size, seed):
    groups = [list(range(sum(sizes[:k]), sum(sizes[: k + 1]))) for k in range(len(sizes))]
    order = batch_order(groups, size, np.random.default_rng(seed))
    assert sorted(order) == list(range(sum(sizes)))
    assert order == batch_order(groups, size, np.random.default_rng(seed))


def test_batches_have_few_prompts_yet_come_in_random_order():
    groups = [range(prompt, 64, 8) for prompt in range(8)]  # eight pairs of each of eight prompts, far apart
    orders = [batch_order(groups, 4, np.random.default_rng(seed)) for seed in range(2)]
    for order in orders:
        assert all(len({i % 8 for i in order[k : k + 4]}) == 1 for k in range(0, 64, 4))
    assert orders[0] != orders[1]
