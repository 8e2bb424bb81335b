import dataclasses

import pytest

from atlas_gym.tasks.burgers.params import PRESETS, BurgersParams
from atlas_gym.tasks.burgers.task import BurgersTask


def test_defaults_are_those_of_the_paper_where_it_gives_them():
    params = BurgersParams()
    assert (params.hidden_width, params.hidden_layers, params.steps) == (32, 4, 500)
    assert params.metric == "relative_l2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schedule", "cubic"),
        ("metric", "loss"),
        ("backend", "gpu"),
        ("steps", 0),
        ("replicas", 0),
        ("n_residual", 2.5),
        ("n_boundary", -1),
        ("nu0", 0.0),
        ("nu1", float("nan")),
        ("learning_rate", float("inf")),
    ],
)
def test_impossible_values_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        BurgersParams(**{name: value})


def test_presets_can_be_refined():
    assert BurgersTask.from_keywords(preset="paper").metric == "nvl"
    refined = BurgersTask.from_keywords(preset="linear", steps=7)
    assert (refined.schedule, refined.steps) == ("linear", 7)
    assert BurgersTask.from_keywords() == BurgersTask()


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_built(preset):
    assert dataclasses.is_dataclass(BurgersTask.from_keywords(preset=preset))


def test_unknown_presets_and_constants_are_refused():
    with pytest.raises(ValueError, match="preset"):
        BurgersTask.from_keywords(preset="shock")
    with pytest.raises(TypeError, match="viscosity_at_start"):
        BurgersTask.from_keywords(viscosity_at_start=0.1)
