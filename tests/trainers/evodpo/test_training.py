"""When a phase's training ends: K̂L grown by the target, the gate's budget, or all epochs."""

import dataclasses

import pytest

from atlas_gym.trainers.evodpo.settings import GateSettings
from tests.trainers.small_phases import SETTINGS, WORSE, digests, run

EVERY_STEP = dataclasses.replace(SETTINGS, epochs=4, checks=5)
WIDE = GateSettings(max_kl=100.0)


def test_training_ends_at_the_target_and_keeps_the_last_checkpoints(policy):
    settings = dataclasses.replace(EVERY_STEP, rollback=True)
    free = run(policy, WORSE, settings)
    assert free.kls == ()
    target = (free.candidates[0].kl + free.candidates[-1].kl) / 3
    result = run(policy, WORSE, dataclasses.replace(settings, target_kl=target), gate=WIDE)
    steps, kls = zip(*result.kls, strict=True)
    assert steps == tuple(range(1, len(steps) + 1))
    assert kls[-1] >= target > max(kls[:-1])
    assert len(result.steps) == steps[-1] < len(free.steps)
    assert [c.step for c in result.candidates] == list(steps[-3:])
    # What was measured on the way is Eq. 3 of the candidates.
    assert [c.kl for c in result.candidates] == pytest.approx(kls[-3:], abs=1e-6)
    assert [s.loss for s in result.steps] == [s.loss for s in free.steps[: len(result.steps)]]


@pytest.mark.parametrize(("checks", "steps"), [(1, [5, 10, 15]), (2, [2, 5, 8, 10, 12, 15, 18])])
def test_looks_are_spaced_over_each_epoch(policy, checks, steps):
    settings = dataclasses.replace(EVERY_STEP, checks=checks, target_kl=99.0)
    assert [step for step, _ in run(policy, WORSE, settings, gate=WIDE).kls] == steps


def test_after_a_refusal_the_target_counts_from_where_the_policy_is(policy):
    first = run(policy, WORSE, dataclasses.replace(EVERY_STEP, target_kl=1e-3), gate=WIDE)
    assert first.kls[-1][1] >= 1e-3
    second = run(policy, WORSE, dataclasses.replace(EVERY_STEP, target_kl=1e-3), gate=WIDE, phase=2)
    assert second.kls[-1][1] >= first.candidates[-1].kl + 0.5e-3  # G_k is another one
    assert not second.promoted


def test_training_ends_at_the_budget_whatever_the_target(policy):
    settings = dataclasses.replace(EVERY_STEP, target_kl=99.0)
    result = run(policy, WORSE, settings, gate=GateSettings(max_kl=1e-3))
    kls = [kl for _, kl in result.kls]
    assert kls[-1] >= 1e-3 > max(kls[:-1], default=0.0)
    assert len(result.steps) < 20


def test_a_refused_policy_beyond_the_budget_returns_to_where_the_phase_began(policy):
    before = digests(policy)
    result = run(policy, WORSE, gate=GateSettings(max_kl=1e-9))
    assert result.candidates[-1].kl > 1e-9
    assert result.rolled_back
    assert digests(policy) == before
