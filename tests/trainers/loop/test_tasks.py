"""Instances of a run's task: their keywords, their hidden data, and what prompts say of them."""

import pytest

from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.settings import ExamSettings, Instance
from atlas_gym.trainers.loop.tasks import Tasks
from atlas_gym.trainers.store.plain import SettingsError


def test_instances_lay_their_keywords_on_the_runs_and_share_no_hidden_data():
    instances = (Instance(), Instance({"noise": 0.1}), Instance())
    tasks = Tasks(RunConfig(seed=3, env_args={"noise": 0.5}, instances=instances))
    posed = tasks.tasks()
    assert [task.noise for task in posed] == [0.5, 0.1, 0.5]
    assert posed[0].seed == 3  # the first is the task of a run without instances
    assert len({task.seed for task in posed}) == 3
    held_out = tasks.held_out(7, island=4)
    assert (held_out.noise, held_out.split) == (0.1, "held_out")


def test_what_the_exam_asks_is_scored_on_by_nothing_else():
    task = Tasks(RunConfig(env_args={"replicas": 2})).unseen(Instance({"noise": 0.1}), 3)
    assert (task.noise, task.replicas, task.split) == (0.1, 2, "held_out")
    assert task.seed > 10_000  # results are confirmed on the first few


def test_prompts_say_what_random_play_observes():
    given = {"env_args": {"horizon": 400, "variation_budget": 0}}
    tasks = Tasks(
        RunConfig(observe=True, instances=(Instance(), Instance({"variation_budget": 400})), **given)
    )
    calm, wild = map(tasks.observed, tasks.tasks())
    silent = Tasks(RunConfig(**given))
    arguments = silent.observed(silent.tasks()[0])  # their shapes are said in any case
    assert "history may be empty" in arguments[1]
    assert calm[: len(arguments)] == arguments
    observed, other = calm[len(arguments) :], wild[len(arguments) :]
    assert "5 arms" in observed[0]
    assert observed[1] != other[1]


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
        (RunConfig(exam=ExamSettings(instances=(Instance({"arm": 3}),))), r"exam.instances\[0\]"),
    ],
)
def test_a_task_that_does_not_exist_is_refused_before_the_run_begins(config, named):
    with pytest.raises(SettingsError, match=named):
        Tasks(config)
