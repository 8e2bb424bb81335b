"""What a run is compared with, as configurations."""

from types import SimpleNamespace

from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.control import controls


def test_a_control_without_a_model_begins_with_no_adapter():
    names = ("frozen", "agent-alone", "supporter-alone", "numbers-alone")
    config = RunConfig(adapter="somewhere", controls=names)
    run = SimpleNamespace(candidate_counts=lambda: {"evaluated": 50}, tuned_phases=list)
    found = dict(controls(config, run))
    assert tuple(found) == names
    assert [own.adapter for own in found.values()] == ["somewhere", "somewhere", "", ""]
