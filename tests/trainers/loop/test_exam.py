"""The measure of learning: what it asks, and what it cannot ask."""

from types import SimpleNamespace

import pytest
from atlas_gym.trainers.loop.measure import Panel

from atlas_gym.agents.proposals import EditLine
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import SettingsError
from tests.trainers.exploring import START, Evaluator


def panel(start):
    task = SimpleNamespace(function="f", starts={"whole": START, "broken": "def f(:\n"})
    tasks = SimpleNamespace(unseen=lambda instance, seed: task, observed=lambda task: ())
    measure = {"samples": 1, "instances": [{"start": start, "env_args": {"noise": 2}}]}
    config = load_config(None, {"measure": measure})
    return Panel(config, tasks, [EditLine("f")], Evaluator(), None)


def test_a_start_that_fails_on_an_instance_is_named():
    assert {question.parent_score for question in panel("whole").questions} == {4.0}
    with pytest.raises(
        SettingsError, match=r"measure\.instances: the start `broken` fails on .*noise.*invalid"
    ):
        panel("broken").require_starts()
