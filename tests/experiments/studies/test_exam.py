"""The exam of policies on bandits that no run had."""

from dataclasses import replace

import pandas as pd
import pytest

from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.experiments.studies import exam
from atlas_gym.trainers.loop.config import load_config, save_config
from atlas_gym.trainers.store.store import RunStore
from tests.agents.records import record
from tests.tiny_model import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def a_run(folder, run, **settings):
    """A run with one phase, which changed nothing."""
    common = {"model": str(folder), "lora": {"rank": 4, "alpha": 8}, "torch_threads": 1, "start": "inlined"}
    common["env_args"] = {"horizon": 60, "replicas": 1, "variation_budget": 6}
    with RunStore(run) as store:
        store.add_round(0, [record(origin="seed")], {})
        store.add_phase(1, 0, False, {"phase": 1, "round": 0}, (), ())
    policy = Policy.load(folder, lora=LoraSettings(rank=4, alpha=8))
    policy.save(POLICY, run / "adapters" / "phase-001" / POLICY)
    save_config(load_config(None, common | settings), run / "config.yaml")
    return run


@pytest.fixture
def short(monkeypatch):
    instances = [{"env_args": {"horizon": 60, "replicas": 1, "variation_budget": own}} for own in (3, 9)]
    monkeypatch.setitem(exam.EXAM, "instances", instances)
    monkeypatch.setitem(exam.EXAM, "prompts", 2)


def test_a_policy_that_learned_nothing_writes_what_the_base_model_writes(folder, tmp_path, short, capsys):
    run = a_run(folder, tmp_path / "run")
    exam.main([str(run), "--samples", "2", "--output", str(tmp_path / "exam.csv")])
    data = pd.read_csv(tmp_path / "exam.csv")
    assert set(data.measure) > {"validity", "yield .002", "best of 2"}
    assert data.base.equals(data.tuned)
    assert set(data.instances) == {2}
    assert "validity" in capsys.readouterr().out


def test_the_last_policy_is_examined_beside_the_base_model(folder, tmp_path, short, monkeypatch):
    run = a_run(folder, tmp_path / "run")
    policy = Policy.load(folder, lora=LoraSettings(rank=4, alpha=8))
    for name, tensor in policy.tensors(POLICY).items():
        tensor.data += 0.3 if ".lora_B." in name else 0.0
    policy.save(POLICY, run / "adapters" / "phase-002" / POLICY)
    (run / "adapters" / "phase-003").mkdir()  # of a phase that was killed before it was stored
    with RunStore(run) as store:
        store.add_phase(2, 0, False, {"phase": 2, "round": 0}, (), ())

    def tuned_alone_is_valid(policy, config, panel):
        changed = any(t.any() for name, t in policy.tensors(POLICY).items() if ".lora_B." in name)
        sample = {"passed": bool(changed), "is_copy": False, "program_key": "k", "gain": None}
        shown = [{"instance": q.island, "site": q.site, "samples": [sample]} for q in panel.questions]
        return {"answers": shown}

    monkeypatch.setattr(exam, "answers", tuned_alone_is_valid)
    [(name, measures)] = exam.examined([run], exam.EXAM)
    assert name == "run"
    assert (measures["validity"].base, measures["validity"].tuned) == (0.0, 1.0)


@pytest.mark.parametrize(
    "other",
    [{"observe": True}, {"sampling": {"temperature": 1.5}}, {"env_args": {"horizon": 60, "replicas": 2}}],
)
def test_runs_that_ask_otherwise_are_not_compared(folder, tmp_path, short, other):
    runs = [a_run(folder, tmp_path / "one"), a_run(folder, tmp_path / "other", **other)]
    with pytest.raises(SystemExit, match="examine it by itself"):
        exam.main([*map(str, runs), "--samples", "1"])


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(SystemExit, match="Error"):
        exam.main([str(tmp_path)])


def test_a_strangers_task_is_not_imported(tmp_path):
    (tmp_path / "task.py").write_text("raise SystemExit('it ran')\n")
    config = replace(load_config(None, {"method": "search"}), env=str(tmp_path / "task.py"))
    save_config(config, tmp_path / "config.yaml")
    with pytest.raises(SystemExit, match="add --trust"):
        exam.main([str(tmp_path)])
