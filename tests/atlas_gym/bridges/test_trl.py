"""The reward function and the environment class, called as TRL calls them."""

import cloudpickle
import gymnasium as gym
import pytest

import atlas_gym
from atlas_gym.bridges.trl import ProgramEnvironment, ProgramReward
from atlas_gym.evaluation import ConfinedEvaluator, InfrastructureError

SMALL = {"horizon": 60, "replicas": 1}
SPEC = atlas_gym.make_task("ATLAS-Bandit-v0", **SMALL)
GOOD = SPEC.starts["named"]


@pytest.fixture(scope="module")
def reward():
    function = ProgramReward("ATLAS-Bandit-v0", **SMALL)
    yield function
    function.close()


def score(program, seed):
    env = gym.make("ATLAS-Bandit-v0", **SMALL)
    env.reset(seed=seed)
    value = env.step(program)[1]
    env.close()
    return value


def test_a_batch_gets_its_scores_in_order(reward):
    rewards = reward(
        completions=[GOOD, "no program", GOOD], prompts=["p"] * 3, seed=[4, 4, 5], trainer_state=None
    )
    assert rewards == [score(GOOD, 4), SPEC.worst_score, score(GOOD, 5)]


def test_chats_are_read_and_seeds_may_be_left_out(reward):
    answer = f"Here it is:\n```python\n{GOOD}```\nGood luck."
    message = {"role": "assistant", "content": answer}
    parts = {"role": "assistant", "content": [{"type": "image"}, {"type": "text", "text": answer}]}
    assert reward([[message], message, [parts], GOOD]) == [score(GOOD, 0)] * 4
    assert reward([GOOD, GOOD], seed=[None, 3]) == [score(GOOD, 0), score(GOOD, 3)]
    assert reward([], seed=[]) == reward([]) == []


def test_the_prefix_completes_a_completion():
    head, tail = GOOD[:100], GOOD[100:]
    function = ProgramReward("ATLAS-Bandit-v0", prefix=head, **SMALL)
    assert function([tail]) == [score(GOOD, 0)]
    function.close()


def test_a_trainer_may_send_it_to_its_workers(reward):
    copy = cloudpickle.loads(cloudpickle.dumps(reward))
    assert copy([GOOD, "no program"]) == reward([GOOD, "no program"])
    copy.close()
    assert reward([GOOD]) == [score(GOOD, 0)]


def test_the_environment_class_remembers_its_best_program():
    class Short(ProgramEnvironment):
        constants = SMALL
        turns = 2

    environment = Short()
    assert SPEC.signature in environment.reset(seed=1, prompt="a column")
    assert environment.get_reward() == SPEC.worst_score
    assert f"Score {score(GOOD, 1):.4f} " in environment.submit(program=GOOD)
    environment.submit("no program")
    assert environment.get_reward() == score(GOOD, 1)
    assert "over" in environment.submit(GOOD)
    environment.reset()
    assert environment.get_reward() == SPEC.worst_score


def test_no_reward_is_due_after_a_failure_of_the_machine(monkeypatch):
    class Short(ProgramEnvironment):
        constants = SMALL

    def spoil(self, program, task):
        raise InfrastructureError("no room")

    environment = Short()
    environment.reset(seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(ConfinedEvaluator, "evaluate", spoil)
        with pytest.raises(InfrastructureError, match="no room"):
            environment.submit(GOOD)
    with pytest.raises(InfrastructureError, match="no room"):
        environment.get_reward()
    environment.reset(seed=1)
    environment.submit(GOOD)
    assert environment.get_reward() == score(GOOD, 1)
