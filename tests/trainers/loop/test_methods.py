"""Methods are settings, and an ablation takes away one thing."""

import pytest

from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import plain

ABLATED = {
    "atlas-no-gate": {"phase.reference"},
    "atlas-fixed-reference": {"phase.reference"},
    "atlas-fixed-shares": {"exploration.by_yield"},
}


def flat(values, prefix=""):
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def settings(method):
    return dict(flat(plain(load_config(None, {"method": method}))))


@pytest.mark.parametrize(("method", "changed"), ABLATED.items())
def test_an_ablation_changes_one_component(method, changed):
    atlas, ablated = settings("atlas"), settings(method)
    assert {key for key in atlas if atlas[key] != ablated[key]} == changed | {"method"}


@pytest.mark.parametrize("writer", ["supporter", "numbers", "expressions"])
def test_controls_without_a_model_evaluate_as_many_programs_as_others(writer):
    config, search = (load_config(None, {"method": name}) for name in (f"{writer}-alone", "search"))
    assert config.writers == {writer: 1.0}
    assert not config.tuning
    assert not config.needs_policy
    assert config.exploration.samples == search.exploration.samples
