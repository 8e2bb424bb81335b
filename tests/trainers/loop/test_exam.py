"""The exam: what it asks, and what it cannot ask."""

from types import SimpleNamespace

import pytest

from atlas_gym.agents.proposals import EditLine
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.loop.exam import Exam
from atlas_gym.trainers.store.plain import SettingsError
from tests.trainers.exploring import START, Evaluator


def exam(start):
    starts = {"whole": START, "broken": "def f(:\n"}
    task = SimpleNamespace(arguments=(), function="f", starts=starts, smoke=lambda: None)
    tasks = SimpleNamespace(unseen=lambda instance, seed: task, observed=lambda task: ())
    asked = {"samples": 1, "instances": [{"start": start, "env_args": {"noise": 2}}]}
    return Exam(load_config(None, {"exam": asked}), tasks, [EditLine("f")], Evaluator(), None)


def test_a_start_that_fails_on_an_instance_is_named():
    assert {question.parent_score for question in exam("whole").questions} == {4.0}
    with pytest.raises(SettingsError, match=r"exam\.instances: the start `broken` fails on .*noise.*invalid"):
        _ = exam("broken").questions
