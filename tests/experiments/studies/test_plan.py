"""Plans: every run's settings are known and right before the first one begins."""

from pathlib import Path

import pytest
import yaml

from atlas_gym.experiments.studies.plan import read_plan
from atlas_gym.trainers.store.plain import SettingsError

SHIPPED = sorted((Path(__file__).parents[3] / "experiments" / "studies").glob("*.yaml"))


def plan_file(tmp_path, **values):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({"name": "x", "env": "ATLAS-Bandit-v0", "arms": {"a": None}} | values))
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_plan_compares_equal_numbers_of_candidates(path):
    runs = read_plan(path).runs()
    assert len({run.name for run in runs}) == len(runs)
    configs = [run.config() for run in runs]
    sizes = {
        c.exploration.samples + (c.exploration.patches if c.supporters.exploration.form != "off" else 0)
        for c in configs
    }
    assert len(sizes) == 1
    assert len({c.rounds * c.exploration.islands for c in configs}) == 1


def test_arms_lie_on_the_shared_settings_and_seeds_come_last(tmp_path):
    arms = {"a": {"method": "search"}, "b": {"settings": {"exploration": {"samples": 3}}}}
    path = plan_file(
        tmp_path, arms=arms, seeds=[4, 5], settings={"exploration": {"samples": 6, "islands": 2}}
    )
    runs = read_plan(path).runs()
    assert [run.name for run in runs] == ["a-named-s4", "b-named-s4", "a-named-s5", "b-named-s5"]
    layout = runs[1].config().exploration
    assert (layout.samples, layout.islands) == (3, 2)
    assert runs[0].config().method == "search"


def test_each_seed_of_an_arm_may_have_a_policy_of_its_own(tmp_path):
    arms = {"a": {"settings": {"adapter": "runs/taught-s{seed}/adapters"}}, "b": None}
    runs = read_plan(plan_file(tmp_path, arms=arms, seeds=[4, 5])).runs()
    assert [run.settings().get("adapter") for run in runs] == [
        "runs/taught-s4/adapters", None, "runs/taught-s5/adapters", None,
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


def test_a_plan_says_only_what_differs_from_the_file_it_is_based_on(tmp_path):
    (tmp_path / "shared").mkdir()
    shared = plan_file(tmp_path / "shared", starts=["inlined"], settings={"rounds": 3, "workers": 1})
    own = {"based_on": f"shared/{shared.name}", "name": "y", "arms": {"b": None}, "settings": {"rounds": 5}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(own))
    plan = read_plan(tmp_path / "plan.yaml")
    assert (plan.name, plan.env, plan.starts) == ("y", "ATLAS-Bandit-v0", ("inlined",))
    assert list(plan.arms) == ["a", "b"]
    assert plan.settings == {"rounds": 5, "workers": 1}


def test_a_plan_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        read_plan(tmp_path / "none.yaml")
