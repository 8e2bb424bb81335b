"""A run's task may change between phases, and prompts may say what was observed of it."""

import pytest

from trainers.loop.config import RunConfig
from trainers.loop.schedule import TaskSchedule
from trainers.store.plain import SettingsError

DRIFT = ({}, {"dimension": 8}, {"dimension": 8, "noise": 0.5})


def test_without_drift_there_is_one_task():
    schedule = TaskSchedule(RunConfig(env_args={"replicas": 2}))
    assert schedule.task(1) == schedule.task(3)
    assert not schedule.changes(2)
    assert schedule.notes(1) == ()


def test_drift_lays_its_keywords_on_the_environments_in_turn():
    schedule = TaskSchedule(RunConfig(env_args={"replicas": 2}, drift=DRIFT))
    assert [schedule.task(block).dimension for block in (1, 2, 3, 4)] == [5, 8, 8, 5]
    assert {schedule.task(block).replicas for block in (1, 2, 3)} == {2}
    assert [schedule.changes(block) for block in (1, 2, 3, 4)] == [False, True, True, True]
    assert schedule.held_out(2, 7).dimension == 8
    assert schedule.held_out(2, 7).split == "held_out"


@pytest.mark.parametrize("tuning", [True, False])
def test_the_task_drifts_at_the_same_rounds_with_and_without_tuning(tuning):
    config = RunConfig(rounds=7, phase_every=3, drift=DRIFT, tuning=tuning)
    assert config.blocks == [(1, 3), (4, 6), (7, 7)]


def test_prompts_say_what_random_play_observes():
    calm, wild = (
        TaskSchedule(RunConfig(observe=True, env_args={"variation_budget": budget, "horizon": 400})).notes(1)
        for budget in (0, 400)
    )
    assert "5 arms" in calm[0]
    assert calm[1] != wild[1]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (RunConfig(env="ATLAS-Bandits-v0"), "ATLAS-Bandits-v0"),
        (RunConfig(env_args={"arm": 3}), "env_args {'arm': 3}"),
        (RunConfig(drift=({}, {"noise": -1.0})), r"drift\[1\] on env_args {'noise': -1.0}"),
    ],
)
def test_a_task_that_does_not_exist_is_refused_before_the_run_begins(config, named):
    with pytest.raises(SettingsError, match=named):
        TaskSchedule(config)
