import dataclasses

import pytest

from atlas_gym.tasks.bandit.params import BanditParams
from atlas_gym.tasks.bandit.task import BanditTask


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("arms", 1),
        ("arms", 256),
        ("dimension", 1001),
        ("horizon", 10**6 + 1),
        ("dimension", 1),
        ("horizon", 9),
        ("noise", -0.1),
        ("variation_budget", -1.0),
        ("variation_budget", 2001.0),
        ("drift", "brownian"),
        ("jump_length", 0.0),
        ("jump_length", 2.1),
        ("contexts", "cauchy"),
        ("replicas", 0),
        ("noise", float("nan")),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        BanditParams(**{name: value})


def test_defaults_move_theta_by_a_fifth_per_step():
    assert BanditParams().variation_per_step == 0.2
    assert BanditParams(drift="none").variation_per_step == 0.0


def test_another_horizon_alone_keeps_the_speed_of_the_drift():
    shorter = BanditTask.from_keywords(horizon=100)
    assert shorter.variation_budget == pytest.approx(20.0)
    assert shorter.variation_per_step == pytest.approx(BanditParams().variation_per_step)
    assert BanditTask.from_keywords(horizon=100, variation_budget=7.0).variation_budget == 7.0


def test_constants_override_a_preset():
    params = BanditTask.from_keywords(preset="paper", arms=7)
    assert params == dataclasses.replace(BanditTask.from_keywords(preset="paper"), arms=7)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no preset 'papr'; there are default, paper"):
        BanditTask.from_keywords(preset="papr")
    with pytest.raises(TypeError, match="no constant horizn; there are arms"):
        BanditTask.from_keywords(horizn=3)
