"""What a phase's settings refuse."""

import pytest

from atlas_gym.trainers.evodpo.settings import PhaseSettings


@pytest.mark.parametrize(
    "bad",
    [
        {"reference": "newest"},
        {"initialisation": "scratch"},
        {"checkpoints": -1},
        {"reference": "timed", "reference_period": 0},
        {"beta": 0.0},
        {"epochs": 0},
        {"target_kl": -0.1},
        {"checks": 0},
        {"supervised": -1.0},
        {"loss": "sigmiod"},
        {"loss": "aot", "divergence": "forward_kl"},
        {"objective": "ppo"},
        {"objective": "grpo", "clip": 0.0},
        {"objective": "grpo", "supervised": 0.3},
        {"objective": "grpo", "packed": False},
    ],
)
def test_impossible_settings_are_errors(bad):
    with pytest.raises(ValueError):
        PhaseSettings(**bad)
