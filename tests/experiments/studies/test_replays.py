"""A run's first phase, trained again under other conditions."""

import shutil
from dataclasses import replace

import pandas as pd
import pytest
import yaml

from atlas_gym.experiments.studies import exam, replays
from atlas_gym.experiments.studies.measuring import base_policy
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.whole_run import config, menu, run

assert config, menu  # fixtures


@pytest.fixture(scope="module")
def folder(config, tmp_path_factory):
    """A run whose supporter taught before its phase."""
    folder = tmp_path_factory.mktemp("taught") / "run"
    layout = replace(config.exploration, patches=0)
    run(
        replace(config, teaching="phase", lessons=3, exploration=layout, start="inlined", max_phases=1),
        folder,
    )
    return folder


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(replays, "NORMAL", {"epochs": 1, "checks": 1, "target_kl": 0.0})


def test_each_variant_makes_its_pairs_of_what_it_keeps(folder):
    settings = load_config(folder / "config.yaml", {})
    with RunStore.open_readonly(folder) as store:
        found = replays.read_source(settings, store, base_policy(settings).tokenizer)
        made = {name: found.pairs(variant) for name, variant in replays.VARIANTS.items()}
        assert 0 < len(found.pairs(replays.Variant(2))) <= 2
    by_id = {record.id: record for record in found.pool}
    held_out = {prompt for prompt, _ in found.gate}
    assert made["normal"]
    assert all(pair.prompt not in held_out for pairs in made.values() for pair in pairs)
    assert all(
        by_id[id_].origin == "agent"
        for pair in made["the agent's answers"]
        for id_ in (pair.chosen_id, pair.rejected_id)
    )
    improving = [pair for pair in made["the supporter's as chosen"] if pair.kind.startswith("improving")]
    assert all(by_id[pair.chosen_id].origin == "supporter" for pair in improving)
    assert all((by_id[pair.chosen_id].gain or 0.0) <= 0.01 for pair in made["gains up to .01"])
    assert all(pair.hole != "y =" for pair in made["without y ="])


def test_variants_are_trained_from_the_base_model_and_shown(folder, few, tmp_path, capsys):
    names = ["normal", "a runaway", "normal"]
    replays.main([str(folder), "--output", str(tmp_path / "out.csv"), "--only", *names])
    rows = pd.read_csv(tmp_path / "out.csv")
    assert list(rows.variant) == ["base model", *names]
    first, again = rows[rows.variant == "normal"].to_dict("records")
    assert first == again  # nothing is left of what was trained in between
    by_name = rows.set_index("variant")
    assert by_name.kl["a runaway"] > 0
    assert by_name.nats["base model"] != first["nats"]
    assert "runaway" in capsys.readouterr().out


def test_with_samples_every_policy_writes_and_the_base_model_once(folder, few, tmp_path, monkeypatch):
    small = {"prompts": 2, "instances": [{"env_args": {"variation_budget": own}} for own in (3, 9)]}
    monkeypatch.setattr(replays, "EXAM", {**replays.EXAM, **small})
    written = []

    def answers(*given):
        written.append(exam.answers(*given)["answers"])
        return {"answers": written[-1]}

    monkeypatch.setattr(replays, "answers", answers)
    where = tmp_path / "out.csv"
    replays.main([str(folder), str(folder), "--output", str(where), "--only", "normal", "--samples", "2"])
    base, *tuned = written
    assert len(tuned) == 2
    assert tuned[0] == tuned[1]
    assert [len(question["samples"]) for question in base] == [2] * 4  # two bandits, two sites each
    valid = [sample["passed"] for question in base for sample in question["samples"]]
    rows = pd.read_csv(where)
    normal = rows[rows.variant == "normal"]
    assert list(normal["validity, base"]) == [sum(valid) / len(valid)] * 2
    assert (normal["validity ±"] >= 0).all()


def test_a_run_is_asked_what_its_own_measure_asks(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "run")
    monkeypatch.setattr(replays, "EXAM", {"instances": [{"env_args": {"variation_budget": 5}}]})
    (instance,) = replays._config(folder, 3).measure.instances
    assert dict(instance.env_args) == {"variation_budget": 5}
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    settings["measure"]["instances"] = [{"env_args": {"variation_budget": 7}}]
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(settings))
    own = replays._config(tmp_path / "run", 3).measure
    assert own.samples == 3
    assert [dict(instance.env_args) for instance in own.instances] == [{"variation_budget": 7}]


def test_a_run_without_a_phase(config, tmp_path):
    run(replace(config, max_phases=0, rounds=1), tmp_path / "run")
    with pytest.raises(SystemExit, match="has had no phase yet"):
        replays.main([str(tmp_path / "run")])
