import pytest

from atlas_gym.tasks.bandit.params import BanditParams
from atlas_gym.tasks.bandit.task import BanditTask


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


def test_another_horizon_alone_keeps_the_speed_of_the_drift():
    shorter = BanditTask.from_keywords(horizon=100)
    assert shorter.variation_budget == pytest.approx(20.0)
    assert BanditTask.from_keywords(horizon=100, variation_budget=7.0).variation_budget == 7.0
