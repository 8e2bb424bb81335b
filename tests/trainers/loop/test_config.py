"""Configurations: methods are settings, files lie on them, single values on both."""

from pathlib import Path

import pytest
import yaml

from atlas_gym.trainers.loop.config import METHODS, RunConfig, load_config, refused_changes, save_config
from atlas_gym.trainers.store.plain import SettingsError, differences

SHIPPED = sorted((Path(__file__).parents[3] / "experiments" / "configs").glob("*.yaml"))


@pytest.mark.parametrize(
    "path", [p for p in SHIPPED if "env" in (yaml.safe_load(p.read_text()) or {})], ids=str
)
def test_a_shipped_configuration_loads(path):
    assert load_config(path, {}).method in METHODS


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_configuration_is_the_same_run(tmp_path, method):
    config = load_config(None, {"method": method, "seed": 4, "phase": {"beta": 0.3}})
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml", {}) == config


def test_what_is_given_wins_over_the_method():
    config = load_config(None, {"method": "evotune", "phase": {"reference": "every_phase"}})
    assert (config.phase.reference, config.phase.initialisation) == ("every_phase", "base")


@pytest.mark.parametrize("method", ["search", "supporter-alone", "numbers-alone"])
def test_a_file_for_one_method_does_not_say_who_writes_in_another(method, tmp_path):
    default = load_config(
        next(path for path in SHIPPED if path.stem == "default"), {"method": method, "controls": []}
    )
    assert default.writers == load_config(None, {"method": method}).writers
    assert default.exploration.samples == 6
    (tmp_path / "own.yaml").write_text(f"method: {method}\nexploration: {{writers: {{expressions: 2}}}}\n")
    for given in ({}, {"method": method}):
        assert load_config(tmp_path / "own.yaml", given).writers["expressions"] == 2


def test_the_default_job_is_compared_with_its_controls_and_measured_on_what_no_island_has():
    config = load_config(Path("experiments/configs/default.yaml"), {})
    assert {"supporter-alone", "unseen"} <= set(config.controls)
    assert len(config.instances) == config.exploration.islands
    trained = [own.env_args for own in config.instances]
    assert not [own for own in config.exam.instances if own.env_args in trained]
    assert len(config.exam.instances) * config.exam.seeds >= 6  # an interval is taken over them


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"method": "atlsa"}, "method must be one of"),
        ({"method": []}, "method must be a valid string"),
        ({"workers": 10**9}, "workers must be at most"),
        ({"exploration": {"islands": 10**30}}, "come to more than 100000000 programs"),
        ({"instances": [{}] * 7}, "an island for each"),
        ({"exploration": {"writers": {"oracle": 1}}}, r"exploration\.writers: there is no 'oracle'"),
        ({"exploration": {"writers": {"agent": 0}}}, "weights of at least 0, one of them positive"),
        (
            {"method": "supporter-alone", "supporters": {"exploration": {"form": "off"}}},
            "nobody but the supporter",
        ),
        (
            {"controls": ["supporter-alone"], "supporters": {"exploration": {"form": "off"}}},
            "controls: supporter-alone",
        ),
        ({"controls": ["frozn"]}, "controls"),
        ({"evaluations": -1}, "evaluations"),
        ({"exam": {"instances": []}}, "exam"),
        ({"rounds": 0}, "rounds must be at least 1"),
        (
            {"teaching": True, "supporters": {"exploration": {"form": "off"}}},
            r"supporters\.exploration\.form",
        ),
    ],
)
def test_a_bad_configuration_is_refused(values, complaint):
    with pytest.raises(SettingsError, match=complaint):
        load_config(None, values)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a: [", "not YAML"),
        (b"\xff\xfe", "not YAML"),
        (b"hello", "must hold settings"),
        (b"- a", "must hold settings"),
        (b"rounds: 3\nseed: 1\nrounds: 4", "rounds stands in lines 1 and 3; keep one"),
        (b'based_on: "a\\0b"', "null"),
        (b"based_on: own.yaml", "based on itself"),
        (b"based_on: other.yaml", "other.yaml cannot be read"),
    ],
)
def test_a_file_without_settings_is_refused(content, complaint, tmp_path):
    (tmp_path / "own.yaml").write_bytes(content)
    with pytest.raises(SettingsError, match=complaint):
        load_config(tmp_path / "own.yaml", {})


def test_differences_are_named_and_not_all_of_them():
    one, other = load_config(None, {}), load_config(None, {"rounds": 5, "phase": {"beta": 0.3}})
    assert differences(one, one) == ""
    assert differences(one, other) == f"rounds: {one.rounds} against 5, phase.beta: 0.1 against 0.3"
    assert differences(one, other, most=1) == f"rounds: {one.rounds} against 5 and 1 more"


def test_phases_fall_between_rounds():
    assert RunConfig(rounds=24, phase_every=8).phases == 2
    assert RunConfig(rounds=25, phase_every=8).phases == 3
    assert RunConfig(rounds=24, phase_every=8, tuning=False).phases == 0
    assert RunConfig(rounds=24, phase_every=8, max_phases=1).phases == 1
    assert RunConfig(rounds=24, phase_every=8, max_phases=5).phases == 2


def test_after_the_last_phase_all_rounds_are_one_block():
    assert RunConfig(rounds=24, phase_every=8).blocks == [(1, 8), (9, 16), (17, 24)]
    assert RunConfig(rounds=24, phase_every=8, max_phases=1).blocks == [(1, 8), (9, 24)]
    assert RunConfig(rounds=24, phase_every=8, tuning=False).blocks == [(1, 24)]
    assert RunConfig(rounds=3, phase_every=8).blocks == [(1, 3)]


def test_rounds_may_be_added():
    def config(rounds, **more):
        return load_config(None, {"method": "search", "rounds": rounds, **more})

    assert not refused_changes(config(4), config(6))
    assert refused_changes(config(6), config(4)) == "rounds: 6 against 4"
    assert refused_changes(config(4), config(6, seed=1)) == "seed: 0 against 1"


def test_fewer_islands_have_fewer_instances():
    default = Path("experiments/configs/default.yaml")
    config = load_config(default, {"exploration": {"islands": 1}})
    assert config.instances == load_config(default, {}).instances[:1]
