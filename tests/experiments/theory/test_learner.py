"""The reference rules and the gate on tables of policies."""

from dataclasses import replace

import numpy as np
import pytest

from atlas_gym.experiments.theory import policies
from atlas_gym.experiments.theory.learner import Learner, Window, move_reference
from atlas_gym.trainers.evodpo.references import ReferenceRule
from atlas_gym.trainers.evodpo.settings import GateSettings

RNG = np.random.default_rng(0)
UTILITIES = RNG.standard_normal((4, 6, 3))
SUBSET = RNG.integers(6, size=(4, 8))
REFERENCE = policies.with_floor(policies.normalised(RNG.standard_normal((4, 6, 3))), 0.05)


def move(learner, phase=1, score=UTILITIES, reference=REFERENCE):
    return move_reference(learner, phase, reference, UTILITIES, score, SUBSET)


def candidate(learner):
    return policies.with_floor(policies.tilted(REFERENCE, UTILITIES, learner.beta), learner.floor)


def test_a_fixed_reference_stays_to_the_bit():
    reference, weight, _ = move(Learner(rule=ReferenceRule("fixed")))
    np.testing.assert_array_equal(reference, REFERENCE)
    assert (weight == 0).all()


def test_every_phase_copies_the_floored_policy():
    learner = Learner(rule=ReferenceRule("every_phase"), beta=0.5)
    np.testing.assert_array_equal(move(learner)[0], candidate(learner))


def test_timed_moves_in_its_phases_only():
    learner = Learner(rule=ReferenceRule("timed", period=3))
    moved = [(move(learner, phase)[0] != REFERENCE).any() for phase in range(1, 7)]
    assert moved == [False, False, True, False, False, True]


def test_averaging_is_a_geometric_mixture_that_keeps_the_floor():
    learner = Learner(rule=ReferenceRule("averaged", mixing=0.3))
    found = np.exp(move(learner)[0])
    product = np.exp(candidate(learner)) ** 0.3 * np.exp(REFERENCE) ** 0.7
    np.testing.assert_allclose(found, product / product.sum(-1, keepdims=True), rtol=1e-10)
    assert found.min() >= 0.05 / 3 * (1 - 1e-12)


def test_the_gate_listens_to_gain_and_kl_per_seed():
    open_gate = Learner(rule=ReferenceRule("gated"), gate=GateSettings(min_gain=-np.inf, max_kl=np.inf))
    assert (move(open_gate)[1] == 1).all()
    kl = np.take_along_axis(policies.kl(candidate(open_gate), REFERENCE), SUBSET, 1).mean(1)
    between = np.sort(kl)[1:3].mean()
    reference, weight, _ = move(replace(open_gate, gate=GateSettings(min_gain=-np.inf, max_kl=between)))
    np.testing.assert_array_equal(weight, kl <= between)
    np.testing.assert_array_equal(reference[kl > between], REFERENCE[kl > between])


def test_the_gate_grades_by_the_score_it_is_given():
    learner = Learner(rule=ReferenceRule("gated"), gate=GateSettings(min_gain=0.0, max_kl=np.inf))
    assert (move(learner, score=UTILITIES)[1] == 1).all()
    assert (move(learner, score=-UTILITIES)[1] == 0).all()


def test_a_checkpoint_can_pass_where_the_final_policy_cannot():
    final = Learner(
        rule=ReferenceRule("gated"), gate=GateSettings(0.0, max_kl=0.05, kl_penalty=20.0), beta=0.3
    )
    _, refused, far = move(final)
    assert (refused == 0).all()
    _, passed, near = move(replace(final, checkpoints=40))
    assert (passed == 1).all()
    assert (near < far).all()


def test_a_reference_without_support_does_not_poison_the_others():
    excluded = policies.greedy(UTILITIES)
    with np.errstate(all="raise"):
        reference, _, _ = move(Learner(rule=ReferenceRule("fixed"), floor=0.0), reference=excluded)
    np.testing.assert_array_equal(reference, excluded)


def test_the_stale_reference_is_the_first_optimum():
    stale = Learner(rule=ReferenceRule("fixed"), stale=True).first_reference(UTILITIES)
    np.testing.assert_array_equal(stale.argmax(-1), UTILITIES.argmax(-1))
    np.testing.assert_allclose(np.exp(stale).min(-1), 0.05 / 3)


def test_decays_count_from_500_rounds():
    learner = Learner(beta=0.6, beta_decay=1 / 3, floor=0.04, floor_decay=0.5)
    assert learner.at(500) == replace(learner, beta_decay=0.0, floor_decay=0.0)
    assert learner.at(4000).beta == pytest.approx(0.3)
    assert learner.at(2000).floor == pytest.approx(0.02)
    assert learner.at(4000).at(4000) == learner.at(4000)


def test_windows():
    window = Window(offset=20, scale=0.5, phases=2)
    assert (window.length(8000), window.phase_length(8000)) == (220, 110)
    assert Window(offset=1, scale=0, phases=5).phase_length(8000) == 1
