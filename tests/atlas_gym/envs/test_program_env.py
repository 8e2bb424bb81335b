"""The shared environment, tried on small bandits."""

import re

import gymnasium as gym
import pytest

import atlas_gym
from atlas_gym.evaluation import InfrastructureError
from atlas_gym.evaluation.evaluator import Evaluator

SPEC = atlas_gym.make_task("ATLAS-Bandit-v0")
GOOD, BAD = SPEC.starts["named"], SPEC.starts["scratch"]
SMALL = {"horizon": 60, "replicas": 2}
BROKEN = "def policy(context, history, t):\n    return theta[t]\n"


def make(**keywords):
    return gym.make("ATLAS-Bandit-v0", **{**SMALL, **keywords})


@pytest.fixture
def env():
    env = make(turns=4)
    yield env
    env.close()


def test_the_reward_is_the_score_and_the_worst_score_for_a_failure(env):
    env.reset(seed=0)
    _, reward, _, _, info = env.step(GOOD)
    assert reward == info["score"] < 0
    assert info["status"] == "ok"
    _, reward, _, _, info = env.step(BROKEN)
    assert reward == SPEC.worst_score
    assert info["score"] is None
    assert info["normalized_score"] is None
    assert set(info["metrics"].values()) == {None}


def test_what_is_no_text_is_refused_and_a_fence_is_taken_off(env):
    env.reset(seed=0)
    for action, fix in ((3, "atlas_gym.wrappers"), (GOOD.encode(), "action.decode()")):
        with pytest.raises(TypeError, match=f"an action is the text of a program, not .*{re.escape(fix)}"):
            env.unwrapped.step(action)
    plain, fenced = (env.step(program) for program in (GOOD, f"```python\n{GOOD}```\n"))
    assert plain[1] == fenced[1] < 0
    assert fenced[4]["turn"] == 2  # what was refused took none


def test_a_mistyped_constant_gets_the_nearest_and_what_else_can_be_said():
    with pytest.raises(TypeError, match=r"did you mean horizon\? there are .*preset and split, .*turns"):
        make(horizn=30)


def test_a_seed_poses_the_task_of_that_seed_and_the_stream_goes_on(env):
    assert env.reset(seed=12)[1]["task_seed"] == 12
    following = [env.reset()[1]["task_seed"] for _ in range(3)]
    assert len({12, *following}) == 4
    env.reset(seed=12)
    assert [env.reset()[1]["task_seed"] for _ in range(3)] == following


def test_a_fixed_task_is_posed_in_every_episode():
    env = make(task_seed=7)
    assert [env.reset(seed=s)[1]["task_seed"] for s in (None, 1, None)] == [7, 7, 7]


def test_episodes_end_after_their_turns_and_then_want_a_reset(env):
    env.reset(seed=0)
    ends = [env.step(BAD)[2:4] for _ in range(4)]
    assert ends == [(False, False)] * 3 + [(True, False)]
    with pytest.raises(gym.error.ResetNeeded):
        env.unwrapped.step(BAD)
    env.reset()
    env.step(BAD)


def test_the_incumbent_is_the_best_program_so_far(env):
    env.reset(seed=0)
    scores = []
    for program, best in ((BAD, BAD), (BROKEN, BAD), (GOOD, GOOD), (BAD, GOOD)):
        observation, _, _, _, info = env.step(program)
        scores.append(info["incumbent_score"])
        assert info["incumbent"] == best
        assert best.strip() in observation
    assert scores[0] == scores[1] < scores[2] == scores[3]
    env.reset(seed=0)
    observation, *_, info = env.step(f"```python\n{GOOD}```\nIt is good.\n")
    assert info["incumbent"] == GOOD
    assert "It is good" not in observation


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"confinement": "none"}, "confinement"),
        ({"confinement": ("moat",)}, "moat"),
        ({"split": "test"}, "split is 'test'"),
        ({"start": "empty"}, "start is 'empty'; there are named, inlined, scratch"),
        ({"turns": 0}, "turns is 0"),
        ({"task_seed": -1}, "seed is -1"),
        ({"preset": "papr"}, "no preset 'papr'"),
    ],
)
def test_mistaken_keywords_are_refused_at_once(keywords, message):
    with pytest.raises(ValueError, match=message):
        make(**keywords)


def test_a_machine_that_fails_costs_no_turn_and_gives_no_reward(env, monkeypatch):
    def fail(*_):
        raise InfrastructureError("out of memory")

    env.reset(seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "evaluate", fail)
        with pytest.raises(InfrastructureError, match="out of memory"):
            env.step(GOOD)
    assert env.step(GOOD)[4]["turn"] == 1
