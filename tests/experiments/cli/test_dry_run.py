"""The shipped configurations load, and a dry run says what they would do without doing any of it."""

from pathlib import Path

import pytest

from atlas_gym.agents.models import loading
from atlas_gym.experiments.cli import dry_run, run
from atlas_gym.experiments.cli.dry_run import count, time_start
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import SettingsError

CONFIGS = sorted((Path(run.__file__).parents[1] / "configs").glob("*.yaml"))


def planned(name, **changes):
    return count(load_config(Path(run.__file__).parents[1] / "configs" / f"{name}.yaml", changes))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_dry_run_prints_what_would_be_done_and_does_nothing(path, tmp_path, monkeypatch, capsys):
    def touched(*args, **kwargs):
        raise AssertionError("a dry run looks for no model")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "resolve_model", touched)
    monkeypatch.setattr(dry_run, "time_start", lambda config: (0.5, 0.25))
    assert run.main(["--config", str(path), "--dry-run"]) == 0
    said = capsys.readouterr().out
    config = load_config(path, {})
    work = count(config)
    hours = work.evaluations * 0.5 / config.workers
    expected = [config.model, config.env, f"{work.evaluations:,}", "timed here", dry_run._time(hours)]
    assert not [text for text in expected if text not in said]
    assert not list(tmp_path.iterdir())


def test_the_starting_program_is_timed():
    wall, cpu = time_start(load_config(None, {"env_args": {"replicas": 1, "horizon": 200}}))
    assert wall > 0
    assert cpu > 0


GATED = {
    "rounds": 24, "phase_every": 8, "pairs": {"count": 64}, "gate": {"samples": 8, "prompts": 4}, "held_out_seeds": 16,
    "exploration": {"islands": 6, "samples": 8},
    "phase": {"epochs": 2, "batch_size": 10, "reference": "gated", "checkpoints": 1},
    "probe": {"prompts": 100, "samples": 16}, "measure": {"samples": 0}, "instances": [], "control": "off",
    "teaching": "off",
}  # fmt: skip


def test_what_is_counted_is_what_the_configuration_decides():
    work = planned("default", **GATED)
    assert work.candidates == 24 * 6 * 8
    assert (work.pairs, work.steps) == (2 * 64, 2 * 13)
    # Three policies answer 4 prompts 8 times; the probe asks 100 prompts 16 times, before and after.
    assert work.measured == 2 * (3 * 4 * 8 + 2 * 100 * 16)
    assert work.evaluations == work.candidates + work.patches + work.measured + 2 * 16


@pytest.mark.parametrize(("prompts", "groups"), [(20, 20), (999, 8 * 6 * 2)])
def test_grpo_trains_on_a_group_a_prompt(prompts, groups):
    phase = GATED["phase"] | {"objective": "grpo", "supervised": 0.0}
    layout = GATED["exploration"] | {"sites": 2}
    work = planned(
        "default", **GATED | {"phase": phase, "exploration": layout, "pairs": {"prompts": prompts}}
    )
    assert (work.pairs, work.steps) == (2 * groups, 2 * -(-groups * 2 // 10))


def test_work_grows_with_what_asks_for_it():
    once = planned("default", **GATED)
    assert planned("default", **GATED | {"rounds": 48}).candidates == 2 * once.candidates
    beside = planned("default", **GATED | {"control": "frozen"})
    assert beside.candidates - once.candidates == (24 - 8) * 6 * 8  # its first block is the run's
    measure = {"samples": 8, "prompts": 3, "seeds": 2, "instances": [{}, {}]}
    asked = planned("default", **GATED | {"measure": measure | {"every_phase": True}})
    ended = planned("default", **GATED | {"measure": measure | {"every_phase": False}})
    assert ended.measured - once.measured == 2 * 2 * 2 * 3 * 8  # at the beginning and at the end
    assert asked.measured - once.measured == 3 * 2 * 2 * 3 * 8  # before the first and after both phases
    taught = planned(
        "default", **GATED | {"teaching": "phase", "pairs": {"count": 64, "prompts": 10}, "lessons": 5}
    )
    assert (
        taught.evaluations - once.evaluations == 2 * (10 + 4) * 5
    )  # the prompts of the pairs and of the gate
    phase = GATED["phase"]
    others = planned("default", **GATED | {"phase": phase | {"alternatives": 2}})
    assert others.measured - once.measured == 2 * 2 * 4 * 8  # each is asked, too
    assert others.steps == 3 * once.steps
    several = planned("default", **GATED | {"instances": [{}, {}]})
    assert several.evaluations - once.evaluations == 2 * 16
    fixed = planned("default", **GATED | {"phase": GATED["phase"] | {"reference": "fixed", "checkpoints": 0}})
    assert once.measured - fixed.measured == 2 * 3 * 4 * 8
    search = planned("default", method="search")
    assert (search.pairs, search.steps, search.measured) == (0, 0, 0)


def test_consultations_end_at_their_budget():
    assert list(planned("paper").consultations.values()) == [3000, 24, 24]
    limited = planned("paper", supporters={"exploration": {"limits": {"calls": 10}}})
    assert limited.consultations["exploration"] == 10
    off = {role: {"form": "off"} for role in ("exploration", "strategist", "inspector")}
    assert set(planned("default", supporters=off, teaching="off").consultations.values()) == {0}


def test_files_are_laid_on_one_another(tmp_path):
    (tmp_path / "base.yaml").write_text("rounds: 5\nphase: {beta: 0.3}\n")
    (tmp_path / "top.yaml").write_text("based_on: base.yaml\nphase: {epochs: 2}\n")
    config = load_config(tmp_path / "top.yaml", {"seed": 7})
    assert (config.rounds, config.phase.beta, config.phase.epochs, config.seed) == (5, 0.3, 2, 7)
    (tmp_path / "lost.yaml").write_text("based_on: nowhere.yaml\n")
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "lost.yaml", {})


def test_the_model_of_a_server_is_told_with_its_address():
    config = load_config(None, {"method": "search", "backend": {"name": "chat", "chat": {"model": "big"}}})
    assert dict(dry_run._layout(config, count(config)))["model"] == "big at http://localhost:8000/v1"


def test_a_task_that_changes_after_the_last_phase_is_probed_as_well():
    drift = {"drift": [{"horizon": 200}, {"horizon": 300}]}
    probed = 2 * 100 * 16
    assert planned("default", **GATED | drift).measured - planned("default", **GATED).measured == probed
