from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest

import atlas_gym

GOOD = atlas_gym.make_task("ATLAS-Bandit-v0").starts["named"]
BROKEN = "def policy(context, history, t):\n    return theta\n"
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra `render`")


def drawn(render_mode, program=None, **keywords):
    env = gym.make("ATLAS-Bandit-v0", render_mode=render_mode, **{"horizon": 200, "replicas": 2, **keywords})
    env.reset(seed=0)
    if program is not None:
        env.step(program)
    picture = env.render()
    env.close()
    return picture


def test_texts_show_status_score_and_regret_over_the_horizon():
    assert "no program evaluated yet" in drawn("ansi")
    assert "error" in drawn("ansi", BROKEN)
    text = drawn("ansi", GOOD)
    assert "ok, score -0." in text
    assert len(text.split("|")[1]) == 60


@needs_matplotlib
def test_images_are_pixels_and_the_program_shows():
    images = [drawn("rgb_array", program) for program in (None, BROKEN, GOOD)]
    for image in images:
        assert (image.shape, image.dtype) == ((480, 640, 3), np.uint8)

    def orange(image):
        return (np.abs(image.astype(int) - [255, 127, 14]).sum(-1) < 30).sum()

    assert orange(images[2]) > 10 * max(1, orange(images[0]))
    assert (images[0] != images[1]).any()
