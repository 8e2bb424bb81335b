"""ATLAS-Burgers-v0 through Gymnasium; what holds for every registered id is tested with the shared bases."""

import gymnasium as gym
import numpy as np
import pytest

from tests.atlas_gym.tasks.burgers.strategies import program

QUICK = {"steps": 20, "replicas": 1, "n_residual": 100}


@pytest.mark.parametrize(("size", "status"), [(-1.7e308, "error"), (1.7e308, "error"), (-1e99, "ok")])
def test_a_huge_loss_is_refused_in_words_or_can_be_drawn(size, status):
    env = gym.make("ATLAS-Burgers-v0", render_mode="rgb_array", **QUICK)
    env.reset(seed=0)
    *_, info = env.step(program(f"return residuals.mean() * 0 + ({size})"))
    assert info["status"] == status
    assert ("keep it between -1e+100 and 1e+100" in info["feedback"]) == (status == "error")
    with np.errstate(all="raise"):
        assert env.render().shape == (480, 640, 3)
    env.close()
