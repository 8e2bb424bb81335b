"""A phase is done again from its record: the same adapters, or an error that says so."""

import dataclasses

import pytest

from atlas_gym.agents.models.adapters import AdapterError
from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.trainers.evodpo.phase import run_phase
from atlas_gym.trainers.loop.redo import redo_phase
from atlas_gym.trainers.store.plain import plain
from tests.trainers.small_phases import BETTER, OPEN, OTHERS, PAIRS, SETTINGS, WORSE, digests, run, scores

SETTINGS_OF = {
    "promoted": (BETTER, SETTINGS),
    "refused": (WORSE, SETTINGS),
    "rolled back": (WORSE, dataclasses.replace(SETTINGS, rollback=True)),
    "without a gate": (BETTER, dataclasses.replace(SETTINGS, reference="every_phase")),
    "from the base": (BETTER, dataclasses.replace(SETTINGS, initialisation="base")),
}


def again(policy, row, settings, pairs=PAIRS, **kwargs):
    def phase(score, review):
        return run_phase(
            policy, pairs, settings, OPEN, score, phase=row["phase"], seed=0, review=review, **kwargs
        )

    redo_phase(row, phase)


@pytest.mark.parametrize("name", SETTINGS_OF)
def test_a_phase_done_again_leaves_the_same_adapters(policy, name):
    score, settings = SETTINGS_OF[name]
    run(policy, score, settings)
    policy.add("policy before", copy_of=POLICY)
    policy.add("reference before", copy_of=REFERENCE)
    result = run(policy, score, settings, phase=2)
    after = digests(policy)
    policy.copy("policy before", POLICY)
    policy.copy("reference before", REFERENCE)
    again(policy, plain(result), settings)
    assert digests(policy) == after


def test_an_alternative_that_was_promoted_is_found_again(policy):
    policy.add("before", copy_of=POLICY)
    policy.copy("before", REFERENCE)
    result = run(policy, scores(**{"alternative-1": 1.0}), alternatives=OTHERS)
    assert result.candidates[result.chosen].name == "alternative-1"
    after = digests(policy)
    policy.copy("before", POLICY)
    policy.copy("before", REFERENCE)
    again(policy, plain(result), SETTINGS, alternatives=OTHERS)
    assert digests(policy) == after


def test_an_inspectors_refusal_stands(policy):
    result = run(policy, review=lambda decision, _: decision.refuse("I do not like it"))
    assert not result.promoted
    after = digests(policy)
    policy.reset(POLICY, 0)
    policy.copy(REFERENCE, POLICY)
    again(policy, plain(result), SETTINGS)
    assert digests(policy) == after


def test_other_adapters_than_those_that_were_lost_are_an_error(policy):
    result = run(policy, WORSE)
    policy.copy(REFERENCE, POLICY)
    with pytest.raises(AdapterError, match="others came out"):
        again(policy, plain(result), SETTINGS, PAIRS[:-4])
