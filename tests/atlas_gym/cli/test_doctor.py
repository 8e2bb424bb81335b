"""The doctor on this machine."""

import pytest

from atlas_gym.cli import doctor
from atlas_gym.evaluation.evaluator import DEFAULT_MINIMUM
from atlas_gym.sandbox.confinement import ALL_LAYERS


def test_every_layer_is_looked_at_and_the_default_ones_are_required():
    findings = {finding.name: finding for finding in doctor.examine()}
    assert set(ALL_LAYERS) <= set(findings)
    assert {name for name, finding in findings.items() if finding.required} == set(DEFAULT_MINIMUM)
    assert all(findings[layer].given for layer in ALL_LAYERS)
    assert "ms" in findings["numpy workers"].detail


@pytest.fixture
def without_torch(monkeypatch):
    """Its import takes most of the doctor's time; one test with it is enough."""
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)


def test_other_systems_get_no_layer(capsys, monkeypatch, without_torch):
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    assert doctor.main() == 1
    out = capsys.readouterr().out
    assert out.count("this is not Linux") == len(ALL_LAYERS)
    assert "UnconfinedEvaluator" in out
