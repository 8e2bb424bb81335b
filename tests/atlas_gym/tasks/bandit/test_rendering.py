import builtins
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest

import atlas_gym
from atlas_gym.evaluation import Evaluation
from atlas_gym.evaluation.result import Status
from atlas_gym.tasks.bandit.rendering import draw_text

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


@pytest.mark.parametrize(("share", "block"), [(0.0, " "), (0.5, "▄"), (0.51, "▅"), (1.0, "█"), (2.0, "█")])
def test_a_block_is_regret_per_step_as_a_share_of_uniform_play(share, block):
    uniform = np.cumsum(np.full(120, 0.25))
    evaluation = Evaluation(
        Status.OK, -0.1, metrics={"normalized_score": 0.5},
        traces={"regret": share * uniform, "uniform_regret": uniform},
    )  # fmt: skip
    assert draw_text(evaluation).split("|")[1] == block * 60


@pytest.mark.usefixtures("any_secret")
def test_a_program_without_learning_has_higher_blocks_than_a_good_one():
    starts = atlas_gym.make_task("ATLAS-Bandit-v0").starts
    rows = [drawn("ansi", starts[name]).split("|")[1] for name in ("scratch", "named")]
    heights = [np.mean([" ▁▂▃▄▅▆▇█".index(block) for block in row]) for row in rows]
    assert heights[0] > heights[1] + 1


@needs_matplotlib
def test_images_are_pixels_and_the_program_shows():
    images = [drawn("rgb_array", program) for program in (None, BROKEN, GOOD)]
    for image in images:
        assert (image.shape, image.dtype) == ((480, 640, 3), np.uint8)

    def orange(image):
        return (np.abs(image.astype(int) - [255, 127, 14]).sum(-1) < 30).sum()

    assert orange(images[2]) > 10 * max(1, orange(images[0]))
    assert (images[0] != images[1]).any()


@needs_matplotlib
@pytest.mark.parametrize("horizon", [10, 50, 51])
def test_short_horizons_can_be_drawn(horizon):
    assert drawn("rgb_array", GOOD, horizon=horizon).any()
    assert "ok" in drawn("ansi", GOOD, horizon=horizon)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    original = builtins.__import__

    def without(name, *arguments, **keywords):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(gym.error.DependencyNotInstalled, match=r"atlas-gym\[render\]"):
        drawn("rgb_array")
    assert "no program" in drawn("ansi")
