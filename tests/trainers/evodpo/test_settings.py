"""What a phase's settings refuse."""

import pytest

from atlas_gym.trainers.evodpo.settings import PhaseSettings


@pytest.mark.parametrize(
    "bad",
    [
        {"reference": "newest"},
        {"initialisation": "scratch"},
        {"checkpoints": -1},
        {"reference": "timed"},
        {"beta": 0.0},
        {"epochs": 0},
        {"target_kl": -0.1},
        {"checks": 0},
        {"supervised": -1.0},
    ],
)
def test_impossible_settings_are_errors(bad):
    with pytest.raises(ValueError):
        PhaseSettings(**bad)
