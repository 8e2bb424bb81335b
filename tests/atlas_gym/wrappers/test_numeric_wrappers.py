"""The wrappers on every environment: checkers, observations, and Stable-Baselines3 as it comes."""

import copy
import dataclasses
import pickle
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

from atlas_gym.evaluation.evaluator import shared_evaluator
from atlas_gym.tasks.registry import find_task
from atlas_gym.wrappers import TemplateAction
from tests.atlas_gym.envs.registered import IDS, QUICK, marks

pytestmark = [
    pytest.mark.filterwarnings("error"),
    # Gymnasium's checker says of every wrapper, whatever it does, that it is one.
    pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version"),
]

NEEDS_SB3 = "needs the extra `sb3`"


@pytest.fixture(scope="module", autouse=True)
def keep_evaluators():
    """Hold on to the evaluator, so that its processes start once and not once per test."""
    evaluator = shared_evaluator("default")
    yield
    evaluator.close()


def make(env_id, wrap, turns=1):
    return wrap(gym.make(env_id, turns=turns, **QUICK[env_id]))


def every_wrapper():
    """Each template of each environment."""
    return [
        pytest.param(
            env_id, partial(TemplateAction, template=t.name), marks=marks(env_id), id=f"{env_id}-{t.name}"
        )
        for env_id in IDS
        for t in find_task(env_id).templates
    ]


@pytest.mark.parametrize(("env_id", "wrap"), every_wrapper())
@pytest.mark.parametrize("turns", [1, 3])
def test_both_checkers_find_nothing(env_id, wrap, turns):
    sb3 = pytest.importorskip("stable_baselines3.common.env_checker", reason=NEEDS_SB3)
    env = make(env_id, wrap, turns)
    check_env(env, skip_render_check=True)
    sb3.check_env(env, warn=True)
    env.close()


@pytest.mark.parametrize(("env_id", "wrap"), every_wrapper())
def test_actions_run_and_observations_say_how_it_went(env_id, wrap):
    env = make(env_id, wrap, turns=2)
    env.action_space.seed(3)
    first, info = env.reset(seed=0)
    assert not first.any()
    assert info["program"] is None
    observation, reward, terminated, _, info = env.step(env.action_space.sample())
    assert info["status"] == "ok", info["feedback"]
    assert not terminated
    assert reward == info["score"]
    assert observation in env.observation_space
    assert observation[:3] == pytest.approx([0.5, 1.0, np.clip(info["normalized_score"], -1, 1)], abs=1e-6)
    second, _, terminated, _, _ = env.step(env.action_space.sample())
    assert terminated
    assert second[3] == max(observation[2], second[2])
    env.close()


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_where_the_original_was(clone):
    env = make("ATLAS-Bandit-v0", TemplateAction, turns=3)
    env.reset(seed=0)
    env.step(np.zeros(3, np.float32))
    other = clone(env)
    action = np.full(3, 0.5, np.float32)
    assert data_equivalence(env.step(action), other.step(action), exact=True)
    env.close(), other.close()


@pytest.mark.parametrize(
    "template",
    ["discounted_linucb", dataclasses.replace(find_task("ATLAS-Bandit-v0").template(), name="own")],
)
def test_the_specification_makes_an_equal_environment(template):
    env = make("ATLAS-Bandit-v0", lambda env: TemplateAction(env, template))
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    action = np.zeros(3, np.float32)
    env.reset(seed=4), again.reset(seed=4)
    assert data_equivalence(env.step(action), again.step(action), exact=True)
    env.close(), again.close()


@pytest.mark.parametrize(
    "env_id", ["ATLAS-Bandit-v0", pytest.param("ATLAS-Burgers-v0", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("PPO", {"n_steps": 8, "batch_size": 8, "n_epochs": 1}),
        ("A2C", {"n_steps": 4}),
        ("SAC", {"learning_starts": 4, "buffer_size": 50, "batch_size": 4}),
    ],
)
def test_stable_baselines3_trains_unchanged_and_says_what_helps_without_the_wrapper(
    env_id, algorithm, settings
):
    sb3 = pytest.importorskip("stable_baselines3", reason=NEEDS_SB3)
    with pytest.raises(TypeError, match=r"takes atlas_gym\.wrappers\.TemplateAction"):
        getattr(sb3, algorithm)("MlpPolicy", gym.make(env_id), device="cpu")
    env = make(env_id, TemplateAction, turns=2)
    model = getattr(sb3, algorithm)("MlpPolicy", env, seed=0, device="cpu", **settings)
    before = copy.deepcopy(model.policy.state_dict())
    model.learn(16)
    after = model.policy.state_dict()
    assert model.num_timesteps == 16
    assert any(not before[name].equal(after[name]) for name in before)
    env.close()
