"""A phase of the tiny model: what is proposed, what is decided, and what it leaves."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.trainers.dpo.kl import Divergence
from atlas_gym.trainers.dpo.phase import divided, gate_subset, late_mean, sinking_warnings
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.dpo.train import train
from tests.agents.constants import with_constants
from tests.trainers.small_phases import (
    OPEN,
    PAIRS,
    PROMPTS,
    SETTINGS,
    WORSE,
    digests,
    never,
    run,
)


def test_a_promotion_copies_exactly_and_the_next_phase_starts_at_ln_2(policy):
    base = policy.digest(REFERENCE)
    first = run(policy)
    assert first.promoted
    assert first.decision.promote
    assert policy.digest(POLICY) == policy.digest(REFERENCE) == first.reference_digest != base
    second = run(policy, phase=2)
    assert first.steps[0].loss == pytest.approx(math.log(2), abs=1e-6)
    assert second.steps[0].loss == pytest.approx(math.log(2), abs=1e-6)
    assert second.steps[-1].loss < math.log(2)


def test_a_refusal_moves_nothing_and_the_policy_goes_on(policy):
    reference = policy.digest(REFERENCE)
    result = run(policy, WORSE)
    assert not result.promoted
    assert "gain" in result.decision.reason
    assert policy.digest(REFERENCE) == reference
    assert policy.digest(POLICY) == result.policy_digest != reference
    following = run(policy, WORSE, phase=2)
    assert abs(following.steps[0].loss - math.log(2)) > 0.01
    assert policy.digest(REFERENCE) == reference


def test_the_kl_budget_refuses_and_the_freeze_is_visible(policy):
    before = digests(policy)
    result = run(policy, gate=GateSettings(max_kl=1e-9))
    assert not result.promoted
    assert "KL" in result.decision.reason
    assert result.decision.frozen
    assert result.rolled_back  # from beyond the budget no phase could be promoted
    assert digests(policy) == before


def test_the_recorded_divergence_is_equation_3_on_the_gate_subset(policy):
    policy.add("before", copy_of=REFERENCE)
    result = run(policy, WORSE)
    items = [(p.prompt, p.chosen) for p in PAIRS if p.prompt in result.gate_prompts]
    expected = Divergence(policy, "before", items).of([POLICY])[POLICY]
    assert result.checkpoints[-1].kl == pytest.approx(expected.mean, abs=1e-6)
    assert len(result.gate_prompts) == 3


def test_gains_are_paired_by_prompt(policy):
    def score(adapter, prompts):
        return [0.1, 0.5, 0.3] if adapter == POLICY else [0.0, 0.3, 0.3]

    final = run(policy, score).checkpoints[-1]
    assert final.score == pytest.approx(0.3)
    assert final.gain == pytest.approx(0.1)
    assert final.gain_error == pytest.approx(np.std([0.1, 0.2, 0.0], ddof=1) / math.sqrt(3))


@pytest.mark.parametrize("rule", ["fixed", "every_phase"])
def test_the_other_rules_move_the_reference_as_they_say(policy, rule):
    settings = dataclasses.replace(SETTINGS, reference=rule)
    for phase in (1, 2):
        before = policy.digest(REFERENCE)
        result = run(policy, never, settings, phase=phase)
        assert result.promoted == (rule == "every_phase")
        assert result.decision is None
        assert result.checkpoints[result.chosen].name == POLICY
        assert result.checkpoints[-1].kl > 0.0
        assert policy.digest(REFERENCE) == (policy.digest(POLICY) if result.promoted else before)


@pytest.mark.parametrize("rule", ["fixed", "every_phase"])
def test_the_other_rules_have_a_trust_region_too(policy, rule):
    settings = dataclasses.replace(SETTINGS, reference=rule)
    policy.add("before", copy_of=POLICY)
    first, *_, last = run(policy, never, settings).checkpoints
    policy.copy("before", POLICY)
    policy.copy("before", REFERENCE)
    room = (first.kl + last.kl) / 2
    result = run(policy, never, settings, gate=dataclasses.replace(OPEN, max_kl=room))
    kept = result.checkpoints[result.chosen]
    assert kept.name != POLICY
    assert kept.kl <= room < result.checkpoints[result.chosen + 1].kl
    assert policy.equal(POLICY, REFERENCE) == result.promoted == (rule == "every_phase")
    before = digests(policy)
    lost = run(policy, never, settings, gate=dataclasses.replace(OPEN, max_kl=1e-9), phase=2)
    assert (lost.promoted, lost.rolled_back, digests(policy)) == (False, True, before)


def test_a_fixed_reference_has_the_room_of_all_phases_so_far(policy):
    settings = dataclasses.replace(SETTINGS, reference="fixed")
    policy.add("before", copy_of=POLICY)
    final = run(policy, never, settings, phase=3).checkpoints[-1]
    for per_phase, kept in ((final.kl / 2.9, True), (final.kl / 3.1, False)):
        policy.copy("before", POLICY)
        gate = dataclasses.replace(OPEN, max_kl=per_phase)
        result = run(policy, never, settings, gate=gate, phase=3)
        assert (result.checkpoints[result.chosen].name == POLICY) == kept


def test_initialisation_and_reference_are_independent(policy):
    evotune = dataclasses.replace(SETTINGS, reference="fixed", initialisation="base")
    warm = dataclasses.replace(SETTINGS, reference="fixed", initialisation="previous")
    for phase in (1, 2):
        assert run(policy, never, evotune, phase=phase).steps[0].loss == pytest.approx(math.log(2), abs=1e-6)
    assert abs(run(policy, never, warm, phase=3).steps[0].loss - math.log(2)) > 0.01


def test_a_phase_is_a_function_of_its_inputs(folder):
    outcomes = []
    for seed in (0, 0, 1):
        policy = Policy.load(folder, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8))
        result = dataclasses.asdict(run(policy, seed=seed))
        del result["seconds"]
        outcomes.append(result)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["policy_digest"] != outcomes[2]["policy_digest"]


@pytest.mark.parametrize("error", [RuntimeError("the scorer died"), KeyboardInterrupt()])
def test_a_phase_that_fails_leaves_the_adapters_as_they_were(policy, error):
    run(policy)
    before = digests(policy)

    def score(adapter, prompts):
        raise error

    with pytest.raises(type(error)):
        run(policy, score, dataclasses.replace(SETTINGS, initialisation="base"), phase=2)
    assert digests(policy) == before
    assert policy.adapters == (POLICY, REFERENCE)


def test_the_inspector_may_refuse_but_not_promote(policy):
    reference = policy.digest(REFERENCE)
    result = run(policy, review=lambda decision, chosen: decision.refuse("one term exploded"))
    assert result.decision.reason == "kept: one term exploded"
    assert policy.digest(REFERENCE) == reference
    with pytest.raises(ValueError, match="more careful"):
        run(policy, WORSE, review=lambda d, chosen: dataclasses.replace(d, promote=True))


def test_steps_are_reported_while_they_happen(policy):
    seen = []
    result = run(policy, train=partial(train, on_step=seen.append))
    assert tuple(seen) == result.steps
    assert [record.step for record in seen] == [1, 2, 3, 4, 5]


def test_pairs_that_are_too_long_are_left_out_and_counted(policy):
    result = run(policy, settings=dataclasses.replace(SETTINGS, max_tokens=12))
    short = [p for p in PAIRS if len(p.prompt) + max(len(p.chosen), len(p.rejected) - 1) <= 12]
    assert 0 < len(short) < len(PAIRS)
    assert (result.pairs, result.dropped) == (len(short), len(PAIRS) - len(short))
    with pytest.raises(ValueError, match="max_tokens"):
        run(policy, settings=dataclasses.replace(SETTINGS, max_tokens=3))


@given(count=st.integers(1, 20), prompts=st.integers(1, 9), stop=st.integers(1, 9))
def test_the_gate_and_the_end_of_the_training_look_at_different_prompts(count, prompts, stop):
    items = [(f"p{i // 2}", f"{i}") for i in range(2 * count)]
    judged, watched = divided(items, with_constants(GateSettings, prompts=prompts, stop_prompts=stop))
    first, second = ({prompt for prompt, _ in part} for part in (judged, watched))
    assert not first & second
    assert (len(first), len(second)) == (
        min(prompts, count - min(stop, count // 3)),
        min(stop, count // 3),
    )
    assert len(judged) == 2 * len(first)
    assert len(watched) == 2 * len(second)


@pytest.mark.parametrize("rule", ["gated", "every_phase"])
def test_weights_that_are_no_numbers_any_more_are_not_kept(policy, rule):
    def diverges(policy, job):
        trained = train(policy, job)
        for tensor in policy.tensors(POLICY).values():
            tensor.data.fill_(math.nan)
        lost = dataclasses.replace(trained.kls[POLICY], mean=math.nan)
        return dataclasses.replace(trained, kls=dict.fromkeys(trained.kls, lost))

    before = digests(policy)
    result = run(policy, settings=dataclasses.replace(SETTINGS, reference=rule), train=diverges)
    assert (result.promoted, result.rolled_back) == (False, True)
    assert digests(policy) == before


def test_the_gate_subset_is_drawn_by_prompt_and_not_by_score():
    rng = np.random.default_rng(0)
    items = [(pair.prompt, pair.chosen) for pair in PAIRS]
    subset = gate_subset(items, 2, rng)
    prompts = {prompt for prompt, _ in subset}
    assert len(prompts) == 2
    assert subset == [(p.prompt, p.chosen) for p in PAIRS if p.prompt in prompts]
    everything = gate_subset(items, 99, rng)
    assert len(everything) == len(PAIRS)
    draws = [frozenset(prompt for prompt, _ in gate_subset(items, 2, rng)) for _ in range(200)]
    counts = [sum(prompt in draw for draw in draws) for prompt in PROMPTS]
    assert min(counts) > 40  # each prompt is drawn with probability 0.4


def test_an_intermediate_checkpoint_can_be_the_one_that_is_promoted(policy):
    seen = {}

    def score(adapter, prompts):
        seen[adapter] = policy.digest(adapter)
        return [1.0 if adapter == "checkpoint-2" else 0.0] * len(prompts)

    result = run(policy, score)
    assert list(seen) == [REFERENCE, "checkpoint-1", "checkpoint-2", POLICY]
    assert len(set(seen.values())) == 4
    assert [checkpoint.name for checkpoint in result.checkpoints] == ["checkpoint-1", "checkpoint-2", POLICY]
    assert [checkpoint.step for checkpoint in result.checkpoints] == [2, 3, 5]
    assert result.chosen == 1
    assert digests(policy) == (seen["checkpoint-2"],) * 2
    assert policy.adapters == (POLICY, REFERENCE)


def test_where_no_score_is_known_the_nearest_is_chosen_and_the_inspector_is_told_of_it(policy):
    def lost_at_the_end(policy, job):
        trained = train(policy, job)
        lost = dataclasses.replace(trained.kls[POLICY], mean=math.nan)
        return dataclasses.replace(trained, kls=trained.kls | {POLICY: lost})

    heard = []
    result = run(
        policy, lambda adapter, prompts: [], train=lost_at_the_end,
        review=lambda decision, chosen: heard.append(chosen.name) or decision,
    )  # fmt: skip
    nearest = min(result.checkpoints[:-1], key=lambda checkpoint: checkpoint.kl)
    assert heard == [nearest.name] == [result.checkpoints[result.chosen].name]
    assert result.decision.kl == nearest.kl
    assert "not a number" in result.decision.reason
    assert not result.promoted


def test_a_chosen_side_that_loses_likelihood_is_reported(policy):
    steps = run(policy).steps
    assert sinking_warnings(steps, 0.1) == []
    sunk = [dataclasses.replace(step, chosen_reward=-1.2) for step in steps]
    (warning,) = sinking_warnings(sunk, 0.1)
    assert "12.0 nats" in warning
    assert late_mean(sunk[:3] + list(steps[3:]), "chosen_reward") == steps[-1].chosen_reward
