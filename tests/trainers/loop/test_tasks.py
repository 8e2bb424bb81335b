"""A run's task may change between phases, prompts may say what was observed of it, and its start may be weakened."""

import numpy as np
import pytest
from atlas_gym.trainers.loop.schedule import TaskSchedule, starting_program

from atlas_gym import make_task
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.settings import Instance, MeasureSettings
from atlas_gym.trainers.store.plain import SettingsError

DRIFT = ({}, {"dimension": 8}, {"dimension": 8, "noise": 0.5})


def test_without_drift_there_is_one_task():
    schedule = TaskSchedule(RunConfig(env_args={"replicas": 2}))
    assert schedule.task(1) == schedule.task(3)
    assert not schedule.changes(2)
    assert schedule.observed(schedule.task(1)) == ()


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


def test_instances_lay_their_keywords_on_those_of_the_block_and_share_no_hidden_data():
    instances = (Instance(), Instance({"noise": 0.1}), Instance())
    schedule = TaskSchedule(RunConfig(seed=3, drift=DRIFT, instances=instances))
    assert [task.noise for task in schedule.tasks(3)] == [0.5, 0.1, 0.5]
    assert schedule.task(3, island=4) == schedule.tasks(3)[1]
    assert schedule.task(1).seed == 3  # the first is the task of a run without instances
    assert len({task.seed for task in schedule.tasks(1)}) == 3
    assert schedule.held_out(1, 7, island=1).noise == 0.1


def test_a_task_that_drifts_on_other_islands_only_changes():
    drift = [{"noise": 0.1}, {"noise": 0.5}]
    given = {"method": "search", "rounds": 4, "phase_every": 2, "drift": drift}
    tasks = TaskSchedule(load_config(None, given | {"instances": [{"env_args": {"noise": 0.3}}, {}]}))
    assert [tasks.arguments(2, n)["noise"] for n in (0, 1)] == [0.3, 0.5]
    assert tasks.changes(2)
    assert not TaskSchedule(load_config(None, given | {"drift": []})).changes(2)


def test_what_the_measure_asks_is_scored_on_by_nothing_else():
    schedule = TaskSchedule(RunConfig(env_args={"replicas": 2}))
    task = schedule.unseen(Instance({"noise": 0.1}), 3)
    assert (task.noise, task.replicas, task.split) == (0.1, 2, "held_out")
    assert task.seed > 10_000  # results are confirmed on the first few


def test_prompts_say_what_random_play_observes():
    schedule = TaskSchedule(
        RunConfig(
            observe=True, env_args={"horizon": 400, "variation_budget": 0},
            instances=(Instance(), Instance({"variation_budget": 400})),
        )
    )  # fmt: skip
    calm, wild = map(schedule.observed, schedule.tasks(1))
    assert "5 arms" in calm[0]
    assert calm[1] != wild[1]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (RunConfig(env="ATLAS-Bandits-v0"), "ATLAS-Bandits-v0"),
        (RunConfig(env_args={"arm": 3}), "env_args {'arm': 3}"),
        (RunConfig(instances=(Instance({"noise": -1.0}),)), r"instances\[0\]"),
        (RunConfig(instances=(Instance(start="other"),)), "start must be one of"),
        (RunConfig(env_args={"horizon": "long"}), "horizon is 'long'; it must be a whole number"),
        (RunConfig(env_args={"seed": 3}), "seed: the run sets that itself"),
        (RunConfig(instances=(Instance({"split": "held_out"}),)), r"instances\[0\].*split: the run sets"),
        (RunConfig(measure=MeasureSettings(instances=(Instance({"arm": 3}),))), r"measure.instances\[0\]"),
        (RunConfig(drift=({}, {"noise": -1.0})), r"drift\[1\] on env_args {'noise': -1.0}"),
    ],
)
def test_a_task_that_does_not_exist_is_refused_before_the_run_begins(config, named):
    with pytest.raises(SettingsError, match=named):
        TaskSchedule(config)


START = make_task("ATLAS-Bandit-v0").starts["named"]


def window_of(program):
    return int(program.split("window = ")[1].split()[0])


def weaker(score, changes=2, seed=0):
    return starting_program(START, "policy", changes, np.random.default_rng(seed), score)


def test_a_weakened_start_scores_lower_and_differs_in_as_many_constants():
    program = weaker(lambda text: -abs(window_of(text) - 50))
    changed = [(a, b) for a, b in zip(START.split("\n"), program.split("\n"), strict=True) if a != b]
    assert window_of(program) != 50
    assert len(changed) == 2
    assert all(a.split("=")[0] == b.split("=")[0] for a, b in changed)


@pytest.mark.parametrize("score", [lambda text: 0.0 if text == START else 1.0, lambda text: None])
def test_where_no_change_makes_it_worse_the_start_stays(score):
    assert weaker(score) == START


def test_without_changes_nothing_is_evaluated():
    assert weaker(lambda text: pytest.fail("evaluated"), changes=0) == START
