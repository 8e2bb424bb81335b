"""A smoke run: what runs passes in every environment, what fails at its first calls does not, and it is short."""

import dataclasses

import numpy as np
import pytest

import atlas_gym
from atlas_gym import make_task
from atlas_gym.evaluation import Status
from atlas_gym.tasks.smoke import CALLS, passes
from tests.hostile.seats import registered_ids

BANDIT = "def policy(context, history, t):\n    {}\n"


class Counting(atlas_gym.ProgramTask):
    """Ten instances of a hundred calls each."""

    start = "def half(x):\n    return x / 2\n"

    def instances(self, rng):
        return list(rng.random(10))

    def score(self, program, instance):
        return -float(np.mean([abs(program(x).number() - x / 2) for x in range(100)]))


@pytest.mark.parametrize("env_id", registered_ids())
def test_programs_that_come_with_a_task_pass(env_id, evaluator):
    if env_id == "ATLAS-Burgers-v0":
        pytest.importorskip("torch")
    smoke = make_task(env_id).smoke()
    for program in make_task(env_id).starts.values():
        assert passes(found := evaluator.evaluate(program, smoke)), found.detail


@pytest.mark.parametrize(
    "body",
    [
        "return int(np.argmax(context @ missing))",
        "return int(np.argmax(context @ history.contexts[-1]))",  # there is none at first
        "return 0 if len(history) < 60 else context @ context",  # seen by who plays more steps than a window holds
        "return history.rewards.mean(axis=1)",
        "return np.argmax(context @",
    ],
)
def test_a_program_that_fails_sooner_or_later_is_found(evaluator, body):
    found = evaluator.evaluate(BANDIT.format(body), make_task("ATLAS-Bandit-v0").smoke())
    assert found.status in (Status.ERROR, Status.INVALID)
    assert found.detail


def test_no_more_calls_are_made_than_it_takes(evaluator):
    smoke = Counting().smoke()
    dies = "calls = 0\n\ndef half(x):\n    global calls\n    calls += 1\n    assert calls <= {}\n    return x / 2\n"
    assert passes(evaluator.evaluate(dies.format(CALLS), smoke))
    assert evaluator.evaluate(dies.format(CALLS - 1), smoke).status == Status.ERROR


def test_a_program_that_is_still_busy_passes_when_its_time_is_over(evaluator):
    found = evaluator.evaluate("def half(x):\n    while True:\n        pass\n", Counting().smoke())
    assert found.status == Status.TIMEOUT
    assert passes(found)


def test_a_smoke_run_plays_other_bandits_than_any_run():
    task = make_task("ATLAS-Bandit-v0", seed=5)
    smoke = task.smoke()
    assert smoke.seed != task.seed
    assert dataclasses.replace(task, seed=6).smoke() == smoke
