import pytest

from atlas_gym.tasks.bandit.params import BanditParams


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("arms", 256),
        ("horizon", 9),
        ("variation_budget", 2001.0),
        ("drift", "brownian"),
        ("jump_length", 2.1),
        ("replicas", 1.5),
        ("noise", float("nan")),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        BanditParams(**{name: value})
