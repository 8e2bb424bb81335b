import dataclasses
import math
from functools import partial

import numpy as np
import pytest
import torch

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.trainers.evodpo.candidate_set import tune_here
from atlas_gym.trainers.evodpo.kl import Divergence
from atlas_gym.trainers.evodpo.phase import gate_subset
from atlas_gym.trainers.evodpo.settings import GateSettings
from tests.trainers.small_phases import (
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
    assert first.weight == 1.0
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


def test_a_refused_phase_can_be_rolled_back(policy):
    before = digests(policy)
    result = run(policy, WORSE, dataclasses.replace(SETTINGS, rollback=True))
    assert result.rolled_back
    assert digests(policy) == before


def test_the_kl_budget_refuses_and_the_freeze_is_visible(policy):
    reference = policy.digest(REFERENCE)
    result = run(policy, gate=GateSettings(max_kl=1e-9))
    assert not result.promoted
    assert "KL" in result.decision.reason
    assert result.decision.frozen
    assert policy.digest(REFERENCE) == reference


def test_the_recorded_divergence_is_equation_3_on_the_gate_subset(policy):
    policy.add("before", copy_of=REFERENCE)
    result = run(policy, WORSE)
    items = [(p.prompt, p.chosen) for p in PAIRS if p.prompt in result.gate_prompts]
    expected = Divergence(policy, "before", items).of([POLICY])[POLICY]
    assert result.candidates[-1].kl == pytest.approx(expected.mean, abs=1e-6)
    assert len(result.gate_prompts) == 3


def test_gains_are_paired_by_prompt(policy):
    def score(adapter, prompts):
        return [0.1, 0.5, 0.3] if adapter == POLICY else [0.0, 0.3, 0.3]

    final = run(policy, score).candidates[-1]
    assert final.score == pytest.approx(0.3)
    assert final.gain == pytest.approx(0.1)
    assert final.gain_error == pytest.approx(np.std([0.1, 0.2, 0.0], ddof=1) / math.sqrt(3))


@pytest.mark.parametrize(("rule", "weight"), [("fixed", 0.0), ("every_phase", 1.0)])
def test_the_other_rules_move_the_reference_as_they_say(policy, rule, weight):
    settings = dataclasses.replace(SETTINGS, reference=rule)
    for phase in (1, 2):
        old = {name: tensor.clone() for name, tensor in policy.tensors(REFERENCE).items()}
        result = run(policy, never, settings, phase=phase)
        assert result.weight == weight
        assert result.decision is None
        assert len(result.candidates) == 1
        assert result.candidates[0].kl > 0.0
        now = policy.tensors(REFERENCE)
        expected = policy.tensors(POLICY) if weight else old
        assert all(torch.equal(tensor, expected[name]) for name, tensor in now.items())


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
    assert outcomes[0]["gate_prompts"] != outcomes[2]["gate_prompts"]


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


def test_packed_and_stock_phases_agree(folder):
    results = []
    for packed in (True, False):
        policy = Policy.load(folder, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8))
        settings = dataclasses.replace(SETTINGS, packed=packed, epochs=2)
        results.append((run(policy, settings=settings), dict(policy.tensors(POLICY))))
    (packed, adapter), (stock, stock_adapter) = results
    assert [s.loss for s in packed.steps] == pytest.approx([s.loss for s in stock.steps], abs=1e-5)
    assert [c.kl for c in packed.candidates] == pytest.approx([c.kl for c in stock.candidates], abs=1e-5)
    for name, tensor in adapter.items():
        torch.testing.assert_close(tensor, stock_adapter[name], atol=2e-5, rtol=1e-4)
    assert packed.tokens < stock.tokens / 3


def test_the_inspector_may_refuse_but_not_promote(policy):
    reference = policy.digest(REFERENCE)
    result = run(policy, review=lambda decision, chosen: decision.refuse("one term exploded"))
    assert result.decision.reason == "kept: one term exploded"
    assert policy.digest(REFERENCE) == reference
    with pytest.raises(ValueError, match="more careful"):
        run(policy, WORSE, review=lambda d, chosen: dataclasses.replace(d, promote=True))


def test_steps_are_reported_while_they_happen(policy):
    seen = []
    result = run(policy, tune=partial(tune_here, on_step=seen.append))
    assert tuple(seen) == result.steps
    assert [record.step for record in seen] == [1, 2, 3, 4, 5]


def test_pairs_that_are_too_long_are_left_out_and_counted(policy):
    result = run(policy, settings=dataclasses.replace(SETTINGS, max_tokens=12))
    short = [p for p in PAIRS if len(p.prompt) + max(len(p.chosen), len(p.rejected)) <= 12]
    assert 0 < len(short) < len(PAIRS)
    assert (result.pairs, result.dropped) == (len(short), len(PAIRS) - len(short))
    with pytest.raises(ValueError, match="max_tokens"):
        run(policy, settings=dataclasses.replace(SETTINGS, max_tokens=3))


def test_the_gate_subset_may_come_from_elsewhere(policy):
    items = [("other =", " 1\n"), ("yet another =", " 2\n")]
    result = run(policy, gate_items=items)
    assert result.gate_prompts == ("other =", "yet another =")


def test_a_gain_that_is_not_a_number_is_refused(policy):
    heard = []

    def score(adapter, prompts):
        return [math.nan] * len(prompts)

    def review(decision, proposed):
        heard.append(proposed.name)
        return decision

    result = run(policy, score, review=review)
    assert not result.promoted
    assert "not a number" in result.decision.reason
    assert heard == [result.candidates[result.chosen].name] != [POLICY]  # the nearest one, not the last


@pytest.mark.parametrize("rule", ["gated", "every_phase"])
def test_weights_that_are_no_numbers_any_more_are_not_kept(policy, rule):
    def diverges(policy, job):
        tuned = tune_here(policy, job)
        for tensor in policy.tensors(POLICY).values():
            tensor.data.fill_(math.nan)
        lost = dataclasses.replace(tuned.kls[POLICY], mean=math.nan)
        return dataclasses.replace(tuned, kls=dict.fromkeys(tuned.kls, lost))

    before = digests(policy)
    result = run(policy, settings=dataclasses.replace(SETTINGS, reference=rule), tune=diverges)
    assert (result.promoted, result.rolled_back, result.weight) == (False, True, 0.0)
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


def last_steps(policy, *changes):
    """The last step of a phase under each change of the settings, all from the same policy."""
    start = {name: tensor.detach().clone() for name, tensor in policy.tensors(POLICY).items()}
    found = []
    for change in changes:
        for name, tensor in policy.tensors(POLICY).items():
            tensor.data.copy_(start[name])
        settings = dataclasses.replace(SETTINGS, reference="fixed", **change)
        found.append(run(policy, never, settings).steps[-1])
    return found


def test_a_supervised_term_keeps_the_chosen_side_up(policy):
    without, with_it = last_steps(policy, *({"epochs": 2, "supervised": weight} for weight in (0.0, 1.0)))
    assert with_it.chosen_reward > without.chosen_reward


def test_the_forward_divergence_is_another_loss(policy):
    reverse, forward = last_steps(policy, {"divergence": "reverse_kl"}, {"divergence": "forward_kl"})
    assert reverse.loss != forward.loss
