"""What an offline W&B run holds of a run, read back from its file; and that W&B can fail as it likes."""

import math
import sys
import time

import pytest

from atlas_gym.evaluation import Status
from experiments.loggers.wandb import Tracker, WandbObserver, resolve_mode
from tests.experiments.report.synthetic import Layout, make_run
from tests.experiments.wandb_file import read_offline
from trainers.loop.config import load_config
from trainers.store.store import RunStore

LAYOUT = Layout(rounds=9, planned_rounds=12)


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_RUN_ID", "WANDB_SWEEP_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path):
    folder = make_run(tmp_path / "run", LAYOUT)
    adapter = folder / "adapters" / "phase-002" / "policy"
    adapter.mkdir(parents=True)
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    return folder


def config_of(mode="offline"):
    exploration = {"islands": LAYOUT.islands, "samples": LAYOUT.samples, "groups": 1}
    return load_config(
        None, {"seed": 3, "tracking": mode, "exploration": exploration, "gate": {"max_kl": 0.4}}
    )


def track(folder, until=None, warn=pytest.fail, mode="offline"):
    """Tell an observer what the loop would tell it of a stored run, up to a round, or to the end."""
    with RunStore(folder) as store:
        observer = WandbObserver(store, config_of(mode), warn)
        observer.seeded(-0.2, 0, LAYOUT.rounds)
        for summary in store.unit_summaries()[1:]:
            if until is not None and summary["round"] > until:
                break
            observer.unit(summary, 0.0)
            for result in (p for p in store.phases() if p["round"] == summary["round"]):
                for moment in ("before", "after"):
                    observer.probe(result["phase"], moment, store.probe(result["phase"], moment))
                observer.phase(result)
        if until is None:
            observer.finished({})
            report = folder / "report.html"
            report.write_text("the report")
            observer.attach([report])
        observer.close()


def values(rows, key):
    return [row[key] for row in rows if key in row]


def test_an_offline_run_holds_every_promised_key(folder):
    track(folder)
    (run,) = read_offline(folder)
    assert run.config["gate"]["max_kl"] == 0.4
    assert run.config["seed"] == 3
    rounds = [row for row in run.history if "explore/best" in row]
    assert values(rounds, "round") == list(range(1, 10))
    expected = {
        "evaluations", "explore/best", "explore/mean", "explore/valid", "explore/distinct", "explore/new",
        "explore/improving", "explore/samples", "explore/tokens", "explore/generation_s", "explore/evaluation_wait_s",
        "clusters/found", "clusters/effective", *(f"status/{status}" for status in Status),
        *(f"island/{i}/{what}" for i in range(3) for what in ("best", "clusters")),
    }  # fmt: skip
    assert all(expected <= set(row) for row in rounds)
    phases = [row for row in run.history if "gate/promoted" in row]
    expected = {
        "phase", "phase/loss", "phase/margin", "phase/accuracy", "phase/kl", "phase/pairs", "phase/train_s",
        "gate/gain", "gate/kl", "gate/min_gain", "gate/max_kl", "strategist/changes", "strategist/beta",
        "strategist/epochs", "supporters/calls", "supporters/answered", "supporters/tokens", "supporters/seconds",
    }  # fmt: skip
    assert [row["phase"] for row in phases] == [1, 2]
    assert all(expected <= set(row) for row in phases)
    assert (
        len(values(run.history, "probe/before_valid")) == len(values(run.history, "probe/after_valid")) == 2
    )
    assert values(run.history, "best_programs/nrows") == [10]
    assert run.artifacts["report"] == ["report.html"]
    assert run.artifacts["model"] == ["policy/adapter_model.safetensors"]


def test_every_evaluation_has_its_row(folder):
    track(folder)
    (run,) = read_offline(folder)
    rows = [row for row in run.history if "score/best" in row]
    with RunStore(folder) as store:
        different = [c for c in store.candidates() if c.duplicate_of is None]
    assert values(rows, "evaluations") == list(range(1, len(different) + 1))
    assert all("score/mean" in row for row in rows if "score/candidate" in row)
    assert values(rows, "score/candidate") == [c.score for c in different if c.score is not None]
    best = -math.inf
    for row in rows:
        best = max(best, row.get("score/candidate", -math.inf))
        assert row["score/best"] == best
    with RunStore(folder) as store:
        assert run.summary["best_score"] == best
        key = next(c.program_key for c in store.candidates() if c.score == best)
        assert run.summary["held_out_score"] == pytest.approx(sum(store.held_out(key)["scores"]) / 4)


def test_axes_are_defined(folder):
    track(folder, until=1)
    (run,) = read_offline(folder)
    assert run.axes["score/*"] == "evaluations"
    assert run.axes["explore/*"] == run.axes["island/*"] == run.axes["clusters/*"] == "round"
    assert run.axes["gate/*"] == run.axes["strategist/*"] == "phase"


def test_resumed_the_record_keeps_its_id_and_its_steps_go_on(folder):
    track(folder)
    (whole,) = read_offline(folder)
    other = make_run(folder.parent / "other", LAYOUT)
    for until in (3, 6, None, None):  # the last resumes a run that is complete
        track(other, until)
    parts = read_offline(other)
    assert len(parts) == 4
    assert sum("best_programs/nrows" in row for part in parts for row in part.history) == 1
    assert {part.run_id for part in parts} == {"synthetic-0"}
    history = [row for part in parts for row in part.history]
    steps = [row["_step"] for row in history]
    assert steps == sorted(set(steps))

    def told(rows):
        return [
            {k: v for k, v in r.items() if not k.startswith("_")}
            for r in rows
            if "best_programs/nrows" not in r
        ]

    assert told(history) == told(whole.history)


@pytest.mark.parametrize(
    ("environment", "mode"),
    [
        ({}, "offline"),
        ({"WANDB_API_KEY": "x" * 40}, "online"),
        ({"WANDB_API_KEY": "x" * 40, "WANDB_MODE": "offline"}, "offline"),
        ({"WANDB_SWEEP_ID": "abc"}, "online"),
        ({"WANDB_SWEEP_ID": "abc", "WANDB_MODE": "offline"}, "offline"),
        ({"WANDB_MODE": "disabled"}, "off"),
    ],
)
def test_the_mode_follows_the_environment_unless_it_is_set(monkeypatch, environment, mode):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert resolve_mode("auto") == mode
    assert resolve_mode("off") == "off"


def test_a_missing_package_is_said_once_and_stops_nothing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    warnings = []
    track(folder, warn=warnings.append)
    assert len(warnings) == 1
    assert "not installed" in warnings[0]
    assert not (folder / "wandb").exists()


@pytest.mark.parametrize("method", ["log", "define_metric", "log_artifact", "finish"])
def test_whatever_fails_in_wandb_ends_the_tracking_and_not_the_run(folder, monkeypatch, method):
    import wandb

    def outage(*arguments, **keywords):
        raise ConnectionError("the server is away")

    monkeypatch.setattr(wandb.Run, method, outage)
    warnings = []
    track(folder, warn=warnings.append)
    assert warnings == ["W&B tracking ended (ConnectionError: the server is away); the run goes on."]
    monkeypatch.undo()
    wandb.finish()


def test_a_record_that_cannot_begin_stops_nothing(folder, monkeypatch):
    import wandb

    def outage(*arguments, **keywords):
        raise TimeoutError("the service does not start")

    monkeypatch.setattr(wandb, "init", outage)
    warnings = []
    track(folder, warn=warnings.append)
    assert warnings == ["W&B tracking ended (TimeoutError: the service does not start); the run goes on."]


def test_without_the_server_a_run_is_tracked_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    warnings = []
    tracker = Tracker(tmp_path, "online", {"env": "x", "method": "atlas"}, "run-1", warnings.append)
    tracker.log({"round": 1, "explore/best": -0.5})
    tracker.finish()
    assert len(warnings) == 1
    assert "tracked offline" in warnings[0]
    # W&B's own process writes the file, and on a busy machine a little after `finish` has returned.
    deadline = time.monotonic() + 30
    while not values(read_offline(tmp_path)[0].history, "explore/best") and time.monotonic() < deadline:
        time.sleep(0.1)
    (run,) = read_offline(tmp_path)
    assert values(run.history, "explore/best") == [-0.5]
