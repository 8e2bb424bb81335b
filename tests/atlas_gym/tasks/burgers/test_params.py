import pytest

from atlas_gym.tasks.burgers.params import BurgersParams


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schedule", "cubic"),
        ("metric", "loss"),
        ("backend", "gpu"),
        ("steps", 0),
        ("n_residual", 2.5),
        ("nu1", float("nan")),
    ],
)
def test_impossible_values_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        BurgersParams(**{name: value})
