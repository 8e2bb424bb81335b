"""Every registered environment against what Gymnasium and its wrappers expect; any warning fails."""

import copy
import json
import os
import pickle
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

import atlas_gym
from atlas_gym import make_task
from atlas_gym.tasks.program_task import SPLITS
from tests.atlas_gym.envs.registered import ONE_PROBLEM, QUICK, starts

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("keep_evaluators")]


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_gymnasiums_checker_finds_nothing(env_id, render_mode):
    if render_mode == "rgb_array":
        pytest.importorskip("matplotlib", reason="needs the extra `render`")
    env = gym.make(env_id, render_mode=render_mode, **QUICK[env_id])
    check_env(env.unwrapped)
    env.close()


def test_rollouts_are_deterministic(env_id):
    rollouts = []
    for _ in range(2):
        env = gym.make(env_id, turns=3, **QUICK[env_id])
        env.action_space.seed(1)
        rollouts.append(
            [env.reset(seed=1), *(env.step(env.action_space.sample()) for _ in range(3)), env.reset()]
        )
        env.close()
    assert data_equivalence(rollouts[0], rollouts[1], exact=True)


def test_another_seed_and_another_split_give_another_score(env_id):
    program = starts(env_id)[0]
    scores = set()
    for split in SPLITS:
        env = gym.make(env_id, split=split, **QUICK[env_id])
        for seed in (0, 1):
            env.reset(seed=seed)
            scores.add(env.step(program)[1])
        env.close()
    assert len(scores) == (1 if env_id in ONE_PROBLEM else 4)


def test_info_has_the_same_keys_at_reset_success_and_failure(env_id):
    env = gym.make(env_id, turns=2, **QUICK[env_id])
    infos = [env.reset(seed=0)[1], env.step(starts(env_id)[0])[4], env.step("syntax error")[4]]
    assert [info["status"] for info in infos] == [None, "ok", "invalid"]
    for info in infos:
        assert info.keys() == infos[0].keys()
        assert info["metrics"].keys() == infos[0]["metrics"].keys()
    env.close()


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_success_and_failure_are_rendered_otherwise(env_id, render_mode):
    if render_mode == "rgb_array":
        pytest.importorskip("matplotlib", reason="needs the extra `render`")
    env = gym.make(env_id, turns=2, render_mode=render_mode, **QUICK[env_id])
    env.reset(seed=0)
    shown = [env.render()]
    for program in (starts(env_id)[0], "syntax error"):
        env.step(program)
        shown.append(env.render())
    assert len({str(image) if isinstance(image, str) else image.tobytes() for image in shown}) == 3
    env.close()


def test_a_failure_is_worth_less_than_any_start(env_id, env):
    rewards = []
    for program in (*starts(env_id), "syntax error"):
        env.reset(seed=0)
        rewards.append(env.step(program)[1])
    assert rewards[-1] == atlas_gym.make_task(env_id, **QUICK[env_id]).worst_score
    assert rewards[-1] < min(rewards[:-1])


def test_every_expert_is_accepted(env_id, env):
    for expert in make_task(env_id, **QUICK[env_id]).programs.values():
        env.reset(seed=0)
        info = env.step(expert.program)[4]
        assert info["status"] == "ok", (expert.name, info["feedback"])


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_where_the_original_was(env_id, clone):
    env = gym.make(env_id, turns=3, **QUICK[env_id])
    env.reset(seed=0)
    first, second, *_ = starts(env_id)
    env.step(first)
    other = clone(env)
    assert data_equivalence(env.step(second), other.step(second), exact=True)
    assert data_equivalence(env.reset(), other.reset(), exact=True)
    env.close()
    other.close()


def test_the_specification_makes_an_equal_environment(env_id, env):
    env.reset(seed=4)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    again.reset(seed=4)
    program = starts(env_id)[0]
    assert env.step(program)[1] == again.step(program)[1]
    again.close()


SCORE = """
import json, sys
import gymnasium as gym, atlas_gym
env_id, kwargs, program = json.loads(sys.argv[1])
env = gym.make(env_id, **kwargs)
env.reset(seed=3)
print(env.step(program)[1].hex())
env.close()
"""


def test_a_reward_does_not_depend_on_the_threads_of_the_process(env_id):
    """BLAS rounds differently with another number of threads; where a score is computed must not matter."""
    job = json.dumps([env_id, QUICK[env_id], starts(env_id)[0]])
    rewards = set()
    for threads in ("1", "4"):
        environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", SCORE, job], env=environment, capture_output=True, text=True, check=True
        )
        rewards.add(done.stdout.strip())
    assert len(rewards) == 1
