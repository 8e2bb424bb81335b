"""Two steps of GRPO with the embedded model, for real."""

import pytest

import atlas_gym
from atlas_gym.tasks.registry import BUILT_IN
from experiments.learners.grpo import ENV_ID, prompt, train


def test_the_prompt_is_the_head_of_a_program():
    assert atlas_gym.make_task(ENV_ID).starts["named"].startswith(prompt())
    assert prompt().endswith("scores =")


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_every_task_has_one(env_id):
    start, head = atlas_gym.make_task(env_id).starts["named"], prompt(env_id)
    assert start.startswith(head)
    assert head.endswith(("return", "scores ="))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_steps_log_rewards_of_the_environment():
    log = train("embedded", steps=2, group=4, tokens=16, horizon=60, replicas=1)
    assert len(log) == 2
    for entry in log:
        assert atlas_gym.make_task(ENV_ID).worst_score <= entry["reward"] < 0
        assert f"rewards/score_{ENV_ID}/mean" in entry
