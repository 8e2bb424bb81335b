"""Of the policies that a phase comes to, which one is proposed to the gate."""

import dataclasses
import math

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.trainers.evodpo.candidate_set import tune_here
from atlas_gym.trainers.evodpo.settings import GateSettings
from tests.trainers.small_phases import (
    OPEN,
    OTHERS,
    SETTINGS,
    WORSE,
    digests,
    run,
    scores,
)


def test_an_intermediate_checkpoint_can_be_the_one_that_is_promoted(policy):
    seen = {}

    def score(adapter, prompts):
        seen[adapter] = policy.digest(adapter)
        return [1.0 if adapter == "candidate-2" else 0.0] * len(prompts)

    result = run(policy, score)
    assert list(seen) == [REFERENCE, "candidate-1", "candidate-2", POLICY]
    assert len(set(seen.values())) == 4
    assert [candidate.name for candidate in result.candidates] == ["candidate-1", "candidate-2", POLICY]
    assert [candidate.step for candidate in result.candidates] == [2, 3, 5]
    assert result.chosen == 1
    assert digests(policy) == (seen["candidate-2"],) * 2
    assert policy.adapters == (POLICY, REFERENCE)


def test_policies_trained_under_other_settings_are_candidates_too(policy):
    before = digests(policy)
    policy.add("before", copy_of=POLICY)
    seen = {}

    def score(adapter, prompts):
        seen[adapter] = policy.digest(adapter)
        return [1.0 if adapter == "alternative-2" else 0.0] * len(prompts)

    result = run(policy, score, alternatives=OTHERS)
    names = ["alternative-1", "alternative-2", "candidate-1", "candidate-2", POLICY]
    assert [candidate.name for candidate in result.candidates] == names
    assert (result.chosen, result.promoted) == (1, True)
    assert digests(policy) == (seen["alternative-2"],) * 2
    assert policy.adapters == (POLICY, REFERENCE, "before")
    tokens = 0
    for name, settings in (("alternative-1", OTHERS[0]), ("alternative-2", OTHERS[1]), (POLICY, SETTINGS)):
        policy.copy("before", POLICY)
        policy.copy("before", REFERENCE)
        assert before == (policy.digest(POLICY), before[1])
        alone = run(policy, settings=settings)
        assert alone.policy_digest == seen[name]
        tokens += alone.tokens
    assert result.tokens == tokens


def test_of_other_settings_only_what_is_within_the_budget_is_chosen(policy):
    far = dataclasses.replace(SETTINGS, learning_rate=5e-2)

    def score(adapter, prompts):
        return [{"alternative-1": 2.0, POLICY: 1.0}.get(adapter, 0.0)] * len(prompts)

    kls = {c.name: c.kl for c in run(policy, WORSE, alternatives=[far]).candidates}
    policy.reset(POLICY, 0)
    assert kls[POLICY] < kls["alternative-1"]
    policy.copy(REFERENCE, POLICY)
    budget = dataclasses.replace(OPEN, max_kl=(kls[POLICY] + kls["alternative-1"]) / 2)
    result = run(policy, score, gate=budget, alternatives=[far])
    assert result.candidates[result.chosen].name == POLICY
    assert result.promoted


def test_without_a_gate_there_are_no_alternatives(policy):
    result = run(policy, settings=dataclasses.replace(SETTINGS, reference="every_phase"), alternatives=OTHERS)
    assert [candidate.name for candidate in result.candidates] == [POLICY]


def test_the_kl_penalty_takes_part_in_the_choice(policy):
    free = run(policy, scores(**{POLICY: 0.5, "candidate-1": 0.4}))
    assert free.chosen == 2
    policy.reset(POLICY, 0)
    policy.copy(POLICY, REFERENCE)
    penalised = run(
        policy, scores(**{POLICY: 0.5, "candidate-1": 0.4}), gate=GateSettings(max_kl=100.0, kl_penalty=1e3)
    )
    assert penalised.chosen == 0


def test_where_no_score_is_known_the_nearest_is_chosen_and_the_inspector_is_told_of_it(policy):
    def lost_at_the_end(policy, job):
        tuned = tune_here(policy, job)
        return dataclasses.replace(
            tuned, kls=tuned.kls | {POLICY: dataclasses.replace(tuned.kls[POLICY], mean=math.nan)}
        )

    heard = []
    result = run(
        policy, lambda adapter, prompts: [], tune=lost_at_the_end,
        review=lambda decision, chosen: heard.append(chosen.name) or decision,
    )  # fmt: skip
    nearest = min(result.candidates[:-1], key=lambda candidate: candidate.kl)
    assert heard == [nearest.name] == [result.candidates[result.chosen].name]
    assert result.decision.kl == nearest.kl


def test_candidates_over_the_budget_are_not_proposed(policy):
    score = scores(**{POLICY: 0.9, "candidate-1": 0.5})
    closed = GateSettings(min_gain=9.0, max_kl=100.0)
    free = run(policy, score, dataclasses.replace(SETTINGS, rollback=True), gate=closed)
    kls = [c.kl for c in free.candidates]
    between = GateSettings(max_kl=(kls[0] + min(kls[1:])) / 2, standard_errors=0.0)
    result = run(policy, score, gate=between)
    assert (free.chosen, result.chosen) == (2, 0)
    assert result.promoted
