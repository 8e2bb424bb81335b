import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

from atlas_gym.trainers.evodpo.references import Reference, ReferenceRule, mixed_reference

PROMOTE = np.array([True, False, True])


@pytest.mark.parametrize(
    ("name", "options", "phases_1_to_4"),
    [
        ("fixed", {}, [[0, 0, 0]] * 4),
        ("every_phase", {}, [[1, 1, 1]] * 4),
        ("timed", {"period": 2}, [[0, 0, 0], [1, 1, 1]] * 2),
        ("timed", {"period": 1}, [[1, 1, 1]] * 4),
        ("averaged", {"mixing": 0.25}, [[0.25] * 3] * 4),
        ("gated", {}, [[1, 0, 1]] * 4),
    ],
)
def test_each_rule_weighs_as_defined(name, options, phases_1_to_4):
    rule = ReferenceRule(name, **options)
    weights = [rule.weight(phase, PROMOTE).tolist() for phase in range(1, 5)]
    assert weights == phases_1_to_4


@pytest.mark.parametrize("name", get_args(Reference))
def test_rules_accept_a_single_decision(name):
    weight = ReferenceRule(name).weight(1, True)
    assert weight.shape == ()
    assert 0.0 <= float(weight) <= 1.0


def test_an_unknown_rule_names_the_known_ones():
    with pytest.raises(ValueError, match="fixed, every_phase, timed, averaged, gated"):
        ReferenceRule("newest")


def test_impossible_options_are_errors():
    with pytest.raises(ValueError, match="period"):
        ReferenceRule("timed", period=0)
    with pytest.raises(ValueError, match="mixing"):
        ReferenceRule("averaged", mixing=0.0)


def test_mixing_is_per_seed_and_exact_at_both_ends():
    rng = np.random.default_rng(0)
    policy, reference = rng.dirichlet(np.ones(4), (3, 5)), rng.dirichlet(np.ones(4), (3, 5))
    mixed = mixed_reference([0.0, 1.0, 0.25], policy, reference)
    np.testing.assert_array_equal(mixed[0], reference[0])
    np.testing.assert_array_equal(mixed[1], policy[1])
    np.testing.assert_allclose(mixed[2], 0.25 * policy[2] + 0.75 * reference[2])
    np.testing.assert_allclose(mixed.sum(-1), 1.0)


def test_gate_and_rules_are_importable_without_torch():
    modules = "atlas_gym.trainers.evodpo.gate, atlas_gym.trainers.evodpo.references"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
