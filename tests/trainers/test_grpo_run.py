"""`method: grpo` in the main loop, from beginning to end, in seconds."""

import shutil
from dataclasses import replace

import pytest
from safetensors.torch import load_file

from atlas_gym.agents.models.adapters import digest
from atlas_gym.trainers.data.groups import group_of
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import merge, plain
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.whole_run import Watcher, contents, menu, run
from tests.trainers.whole_run import config as atlas

assert atlas, menu  # fixtures


@pytest.fixture(scope="module")
def config(atlas):
    """Two GRPO phases between three rounds, behind a gate that refuses nothing."""
    phase = {"objective": "grpo", "beta": 0.04, "epochs": 3, "batch_size": 1}
    return load_config(
        None, merge(plain(atlas), {"method": "grpo", "phase": phase, "measure": {"samples": 0}})
    )


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(config, folder)


def test_a_phase_learns_from_what_the_policy_wrote_since_the_last(whole):
    candidates, pairs, phases, _, _ = contents(whole[0])
    assert pairs == []
    by_id = {record.id: record for record in candidates}
    for phase in phases:
        assert phase["pairs"] == len(phase["groups"]) > 0
        for group in phase["groups"]:
            records = [by_id[id_] for id_ in group["ids"]]
            assert {record.origin for record in records} == {"agent"}
            assert {record.round for record in records} == {phase["round"]}
            assert len({record.prompt for record in records}) == 1
            assert list(group_of(records).rewards) == group["rewards"]
            assert len(set(group["rewards"])) > 1
        rewards = [reward for group in phase["groups"] for reward in group["rewards"]]
        assert phase["reward"] == pytest.approx(sum(rewards) / len(rewards))


def test_its_phases_pass_through_the_gate_like_any_other(whole):
    for phase in contents(whole[0])[2]:
        assert phase["promoted"]
        assert phase["policy_digest"] == phase["reference_digest"]
        assert len(phase["candidates"]) > 1
        assert phase["kl"] > 0.0
        assert phase["steps"][-1]["margin"] > 0.0


def test_interrupted_in_a_phase_it_ends_as_if_it_had_not_been(config, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, Watcher(interrupt_at=("probe", 2, "after")))
    assert run(config, tmp_path) == whole[1]
    assert contents(tmp_path) == contents(whole[0])


def digests(folder):
    return {file.parent.name: digest(load_file(file)) for file in folder.rglob("*.safetensors")}


def test_a_lost_adapter_is_tuned_again_from_the_same_groups(config, whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    adapter = tmp_path / "run" / "adapters" / "phase-002"
    saved = digests(adapter)
    shutil.rmtree(adapter)
    assert run(config, tmp_path / "run") == whole[1]
    assert digests(adapter) == saved


def test_a_phase_with_nothing_to_tell_apart_is_skipped_in_words(config, tmp_path):
    alone = replace(config.exploration, islands=1, groups=1, samples=1)
    run(replace(config, rounds=2, exploration=alone), tmp_path)
    (phase,) = contents(tmp_path)[2]
    assert "all of a prompt earned the same reward" in phase["skipped"]


def test_after_a_reset_the_programs_are_still_there(config, tmp_path):
    run(
        replace(config, rounds=3, phase=replace(config.phase, initialisation="base", reference="fixed")),
        tmp_path,
    )
    candidates, _, phases, _, _ = contents(tmp_path)
    assert {phase["weight"] for phase in phases} == {0.0}
    with RunStore.open_readonly(tmp_path) as store:
        assert store.last_round() == 3
    assert any(c.parent_id and c.round == 3 for c in candidates)  # parents of earlier rounds
