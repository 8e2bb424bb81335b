"""Methods are settings, and an ablation takes away one thing."""

import pytest

from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import plain

ABLATED = {
    "atlas-no-gate": {"phase.reference"},
    "atlas-fixed-reference": {"phase.reference"},
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


@pytest.mark.parametrize("method", ["supporter-alone", "numbers-alone"])
def test_controls_without_a_model_write_as_many_candidates_as_others_sample(method):
    config, search = (load_config(None, {"method": name}) for name in (method, "search"))
    layout = config.exploration
    assert not config.tuning
    written = layout.patches if method == "supporter-alone" else layout.samples
    assert written == search.exploration.samples
    assert layout.samples == 0 or config.agent.styles["edit_line"] == 0


def test_best_of_n_neither_evolves_nor_tunes():
    config = load_config(None, {"method": "best-of-n"})
    assert not config.agent.evolve
    assert not config.tuning
    assert config.supporters.exploration.form == "off"
