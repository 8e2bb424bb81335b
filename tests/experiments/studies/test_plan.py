"""Plans of studies: what they compare, and what is refused before anything runs."""

from pathlib import Path

import pytest
import yaml

from atlas_gym.experiments.studies.plan import read_plan
from atlas_gym.trainers.store.plain import SettingsError

SHIPPED = sorted((Path(__file__).parents[3] / "experiments" / "studies").glob("*.yaml"))


def plan_file(folder, **values):
    plan = {"name": "x", "tasks": {"bandit": {"env": "ATLAS-Bandit-v0"}}, "arms": {"a": None}, **values}
    (folder / "x.yaml").write_text(yaml.safe_dump(plan))
    return folder / "x.yaml"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_plan_compares_equal_numbers_of_evaluations(path):
    plan = read_plan(path)
    for task in plan.tasks:
        configs = [run.config() for run in plan.runs() if run.task == task]
        assert (
            len({c.evaluations or c.rounds * c.exploration.islands * c.exploration.samples for c in configs})
            == 1
        )


def test_arms_lie_on_their_task_and_on_what_all_share_and_seeds_come_last(tmp_path):
    tasks = {
        "one": {"env": "ATLAS-Bandit-v0", "settings": {"start": "inlined", "rounds": 2}},
        "two": {"env": "ATLAS-TSP-v0"},
    }
    arms = {"a": {"method": "search"}, "b": {"settings": {"exploration": {"samples": 3}}}}
    shared = {"rounds": 5, "exploration": {"samples": 6, "islands": 2}}
    runs = read_plan(plan_file(tmp_path, tasks=tasks, arms=arms, seeds=[4, 5], settings=shared)).runs()
    assert [run.name for run in runs] == [
        f"{task}-{arm}-s{seed}" for seed in (4, 5) for task in ("one", "two") for arm in ("a", "b")
    ]
    config = runs[1].config()
    assert (config.exploration.samples, config.exploration.islands, config.rounds) == (3, 2, 2)
    assert (config.start, config.seed, config.env) == ("inlined", 4, "ATLAS-Bandit-v0")
    assert (runs[2].config().method, runs[2].config().rounds) == ("search", 5)


def test_each_task_and_seed_of_an_arm_may_have_a_policy_of_its_own(tmp_path):
    arms = {"a": {"settings": {"adapter": "runs/{task}-s{seed}/adapters"}}, "b": None}
    runs = read_plan(plan_file(tmp_path, arms=arms, seeds=[4, 5])).runs()
    assert [run.settings.get("adapter") for run in runs] == [
        "runs/bandit-s4/adapters", None, "runs/bandit-s5/adapters", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"arms": {"a": {"metod": "search"}}},
        {"settings": {"rouns": 3}},
        {"arms": []},
        {"sedes": [1]},
        {"seeds": [0, 0]},
    ],
)
def test_a_wrong_plan_is_refused_before_anything_runs(tmp_path, change):
    with pytest.raises(SettingsError):
        read_plan(plan_file(tmp_path, **change))


def test_a_plan_says_only_what_differs_from_the_one_it_is_based_on(tmp_path):
    shared = plan_file(tmp_path, settings={"rounds": 3, "workers": 1})
    own = {"based_on": shared.name, "name": "y", "arms": {"b": None}, "settings": {"rounds": 5}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(own))
    plan = read_plan(tmp_path / "plan.yaml")
    assert (plan.name, list(plan.tasks), list(plan.arms)) == ("y", ["bandit"], ["a", "b"])
    assert plan.settings == {"rounds": 5, "workers": 1}
