"""The main loop from beginning to end, in seconds: a model of random weights, everything else real."""

import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from atlas_gym import make_task
from atlas_gym.agents.models.adapters import AdapterError, digest
from atlas_gym.tasks.bandit.bare import play_bare
from atlas_gym.trainers.loop.atlas import AtlasRun
from atlas_gym.trainers.loop.beginning import require_beginning
from atlas_gym.trainers.loop.control import FOLDER, controls, open_control
from atlas_gym.trainers.loop.exam import learned
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.queries import held_out_key
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.whole_run import TASK, Watcher, config, contents, menu, run

assert config, menu  # fixtures


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """A run that nobody interrupts: its folder, summary and events."""
    folder, watcher = tmp_path_factory.mktemp("whole"), Watcher()
    return folder, run(config, folder, watcher), watcher.events


def saved(folder, phase, adapter):
    return digest(
        load_file(folder / "adapters" / f"phase-{phase:03d}" / adapter / "adapter_model.safetensors")
    )


def test_a_run_explores_tunes_and_confirms_in_this_order(whole):
    _, _, events = whole

    assert events == [
        ("seeded", 0, 3), ("round", 1), ("exam", 0), ("exam", 1), ("phase", 1), ("round", 2), ("exam", 2),
        ("phase", 2), ("round", 3), ("finished",),
    ]  # fmt: skip


def test_the_agent_and_the_supporters_have_their_candidates(whole):
    candidates, _, phases, _, calls = contents(whole[0])
    written = [c for c in candidates if c.origin == "agent" and c.evaluated]
    assert 0 < len(written) <= 3 * 3 * 6
    assert {c.status for c in written} == {"ok"}  # the others failed their smoke run
    patched = [c for c in candidates if c.origin == "supporter"]
    assert patched
    assert all(c.program != candidates[0].program for c in patched)
    assert {(phase, role) for _, phase, role in calls} == {
        (None, "exploration"), *((p["phase"], role) for p in phases for role in ("strategist", "inspector"))
    }  # fmt: skip


def test_base_model_and_policies_answer_the_same_questions_on_instances_that_nothing_was_tuned_on(
    config, whole
):
    _, pairs, _, exams, _ = contents(whole[0])
    answers = [exams[phase]["answers"] for phase in (0, 1, 2)]
    asked = [
        [(answer["instance"], answer["site"], len(answer["samples"])) for answer in own] for own in answers
    ]
    assert asked[0] == asked[1] == asked[2]
    assert [number for number, _, _ in asked[0]] == [0, 0, 1, 1]
    with RunStore(whole[0].parent / "exam") as store, AtlasRun(config, store) as atlas:
        questions = atlas.tuning.exam.questions
    assert len(questions) == 4
    assert not {question.prompt for question in questions} & {pair.prompt for _, pair in pairs}
    found = learned(exams)
    assert list(found) == [1, 2]
    assert found[1]["validity"].instances == 2


def test_rounds_may_be_added_to_a_run_that_has_ended(config, whole, tmp_path):
    """It is then what it had been, had it begun with so many; its phases too, of which one follows its former end."""
    run(replace(config, rounds=2), tmp_path)
    assert len(contents(tmp_path)[2]) == 1
    with RunStore.open_readonly(tmp_path) as store:
        require_beginning(config, store)
        with pytest.raises(SettingsError, match="rounds: 2 against 1"):
            require_beginning(replace(config, rounds=1), store)
    summary = run(config, tmp_path)
    assert contents(tmp_path) == contents(whole[0])
    assert summary == whole[1]
    with RunStore.open_readonly(tmp_path) as store, pytest.raises(SettingsError, match="rounds: 3 against 2"):
        require_beginning(replace(config, rounds=2), store)


def controlled(config, folder, observer=None):
    """Walk every control of an ended run, as the main job does; their configurations."""
    with RunStore.open_readonly(folder) as ended:
        found = dict(controls(config, ended))
        for name, own in found.items():
            with (
                open_control(ended, name) as beside,
                AtlasRun(own, beside, [observer or Watcher()]) as control,
            ):
                control.run()
    return found


@pytest.fixture(scope="module")
def beside(config, whole, tmp_path_factory):
    """The run, its controls' configurations, and the run's folder with them."""
    folder = tmp_path_factory.mktemp("beside") / "run"
    shutil.copytree(whole[0], folder)
    asked = replace(config, controls=("frozen", "numbers-alone", "expressions-alone", "unseen"))
    return asked, controlled(asked, folder), folder


def test_the_frozen_control_is_the_same_run_until_the_first_phase_and_goes_on_untuned(whole, beside):
    *_, folder = beside
    frozen = folder / FOLDER / "frozen"
    mine, its = contents(whole[0])[0], contents(frozen)[0]
    assert [c for c in its if c.round <= 1] == [c for c in mine if c.round <= 1]
    assert [c.program for c in its] != [c.program for c in mine]
    assert contents(frozen)[2] == []
    with RunStore.open_readonly(whole[0]) as tuned, RunStore.open_readonly(frozen) as control:
        key = held_out_key(
            tuned.start(), tuned.instances
        )  # what the run has confirmed is not confirmed again
        assert control.held_out(key) == tuned.held_out(key) is not None


def test_a_control_with_one_writer_has_the_runs_evaluations(whole, beside):
    _, found, folder = beside
    for name in ("numbers-alone", "expressions-alone"):
        assert found[name].evaluations == whole[1]["evaluated"]
        assert not found[name].needs_policy
        with RunStore.open_readonly(folder / FOLDER / name) as control:
            spent = control.candidate_counts()["evaluated"]
            assert {c.origin for c in control.candidates("c.round > 0")} == {name.removesuffix("-alone")}
        assert spent == whole[1]["evaluated"]


def test_the_unseen_searches_begin_alike_with_the_tuned_policy_and_without(beside):
    asked, found, folder = beside
    tuned, base = (contents(folder / FOLDER / name)[0] for name in ("unseen-tuned", "unseen-base"))
    starts = [[c.score for c in own if c.origin == "seed"] for own in (tuned, base)]
    assert starts[0] == starts[1]
    assert len(starts[0]) == len(asked.exam.instances) * asked.exam.seeds
    assert [c.program for c in tuned] != [c.program for c in base]
    assert found["unseen-tuned"].rounds == asked.exam.rounds
    with (
        RunStore.open_readonly(folder) as run,
        RunStore.open_readonly(folder / FOLDER / "unseen-tuned") as own,
    ):
        assert own.get_meta("begin") == run.phases()[-1]["policy_digest"]


def test_without_a_tuned_phase_nothing_is_unseen(config, tmp_path):
    with RunStore(tmp_path) as store:
        assert list(controls(replace(config, controls=("unseen", "numbers-alone")), store)) == []


def test_controls_killed_and_resumed_are_the_same(config, whole, beside, tmp_path):
    *_, folder = beside
    shutil.copytree(whole[0], tmp_path / "run")
    asked = replace(config, controls=("frozen", "unseen"))
    with pytest.raises(KeyboardInterrupt):
        controlled(asked, tmp_path / "run", Watcher(interrupt_at=("round", 2)))
    controlled(asked, tmp_path / "run")
    for name in ("frozen", "unseen-tuned", "unseen-base"):
        own = tmp_path / "run" / FOLDER / name
        assert contents(own) == contents(folder / FOLDER / name)


def test_a_policy_that_was_tuned_once_more_searches_unseen_instances_anew(beside, tmp_path):
    *_, folder = beside
    shutil.copytree(folder, tmp_path / "run")
    with RunStore(tmp_path / "run") as run:
        row = run.phases()[-1] | {"phase": 3, "policy_digest": "another"}
        run.add_phase(3, 3, False, row, ())
        with open_control(run, "unseen-tuned") as control:
            assert control.round_summary(0) is None
        with open_control(run, "unseen-base") as control:
            assert control.round_summary(0) is not None


def test_a_promotion_moves_the_reference_to_the_policy_and_both_are_kept(whole):
    folder, (_, _, phases, *_) = whole[0], contents(whole[0])
    for phase in phases:
        assert phase["promoted"]
        assert phase["promoted"]
        assert phase["policy_digest"] == phase["reference_digest"]
        for adapter, name in (("default", "policy"), ("reference", "reference")):
            assert saved(folder, phase["phase"], adapter) == phase[f"{name}_digest"]
    assert phases[0]["policy_digest"] != phases[1]["policy_digest"]


def test_the_summary_confirms_on_held_out_tasks(config, whole):
    candidates, summary = contents(whole[0])[0], whole[1]
    best = max((c for c in candidates if c.passed), key=lambda c: (c.score, -c.id))
    assert (summary["initial"]["id"], summary["best"]["id"]) == (0, best.id)
    for row in (summary["initial"], summary["best"]):
        tasks = [make_task(config.env, seed=seed, split="held_out", **TASK) for seed in range(2)]
        assert row["held_out_scores"] == [play_bare(row["program"], task) for task in tasks]
        assert row["held_out"] == pytest.approx(sum(row["held_out_scores"]) / 2)
    assert summary["candidates"] == len([c for c in candidates if c.origin != "seed" and c.evaluated])


def test_a_refused_phase_moves_the_policy_alone(config, tmp_path):
    closed = replace(config, rounds=2, gate=replace(config.gate, min_gain=1e9))
    run(closed, tmp_path)
    (phase,) = contents(tmp_path)[2]
    assert not phase["promoted"]
    assert not phase["promoted"]
    assert "gain" in phase["decision"]["reason"]
    assert saved(tmp_path, 1, "default") == phase["policy_digest"] != phase["reference_digest"]
    assert saved(tmp_path, 1, "reference") == phase["reference_digest"]
    tensors = load_file(tmp_path / "adapters" / "phase-001" / "reference" / "adapter_model.safetensors")
    assert not any(
        tensor.any() for name, tensor in tensors.items() if "lora_B" in name
    )  # still the base model


def test_a_run_interrupted_in_a_round_and_in_a_phase_ends_as_if_it_had_not_been(config, whole, tmp_path):
    for event in (("round", 1), ("exam", 2)):
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path, Watcher(interrupt_at=event))
    watcher = Watcher()
    assert run(config, tmp_path, watcher) == whole[1]
    assert contents(tmp_path) == contents(whole[0])
    assert watcher.events[0] == ("seeded", 2, 3)  # two rounds were read, not made
    assert torch.get_num_threads() == 1


def test_no_phase_follows_the_round_that_spends_the_last_evaluation(config, tmp_path):
    run(replace(config, evaluations=5), tmp_path)
    candidates, _, phases, *_ = contents(tmp_path)
    last = max(record.round for record in candidates)
    assert last < config.rounds
    assert all(phase["round"] < last for phase in phases)


@pytest.mark.parametrize("damage", ["lost", "another phase's"])
def test_an_adapter_that_is_not_the_one_that_a_phase_left_ends_the_run(config, whole, tmp_path, damage):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    first, second = (folder / "adapters" / phase / "default" for phase in ("phase-001", "phase-002"))
    shutil.rmtree(first)
    if damage != "lost":
        shutil.copytree(second, first)
    with pytest.raises(AdapterError):
        run(config, folder)
    assert contents(folder) == contents(whole[0])


def test_a_run_that_cannot_begin_gives_its_evaluators_back(config, tmp_path, monkeypatch):
    told = []

    @contextmanager
    def make_pool(config):
        told.append("opened")
        try:
            yield
        finally:
            told.append("closed")

    def refuse(*args):
        raise AdapterError("lost")

    monkeypatch.setattr("atlas_gym.trainers.loop.resources.make_pool", make_pool)
    monkeypatch.setattr("atlas_gym.trainers.loop.atlas.Tuning", refuse)
    with RunStore(tmp_path / "run") as store, pytest.raises(AdapterError):
        AtlasRun(config, store)
    assert told == ["opened", "closed"]
    assert not (tmp_path / "run" / "config.yaml").exists()
