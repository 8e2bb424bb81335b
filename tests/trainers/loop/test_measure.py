"""The measure of learning: what it asks, and what it cannot ask."""

from types import SimpleNamespace

import pytest

from agents.proposals import EditLine
from tests.trainers.exploring import START, Evaluator
from trainers.loop.config import load_config
from trainers.loop.measure import Panel
from trainers.store.plain import SettingsError


def test_a_start_that_fails_on_an_instance_is_named():
    task = SimpleNamespace(function="f", starts={"whole": START, "broken": "def f(:\n"})
    tasks = SimpleNamespace(unseen=lambda instance, seed: task, observed=lambda task: ())

    def panel(start):
        settings = {"measure": {"samples": 1, "instances": [{"start": start, "env_args": {"noise": 2}}]}}
        return Panel(load_config(None, settings), tasks, [EditLine("f")], Evaluator(), None)

    assert {question.parent_score for question in panel("whole").questions} == {4.0}
    with pytest.raises(
        SettingsError, match=r"measure\.instances: the start `broken` fails on .*noise.*invalid"
    ):
        panel("broken").require_starts()
