"""What an offline W&B run holds of a run, read back from its file; and that W&B can fail as it likes."""

import json
import os
import sys
from itertools import accumulate
from statistics import fmean

import pytest
import wandb
from PIL import Image

from atlas_gym.experiments.loggers.wandb import WandbObserver, choose
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import Layout, make_run
from tests.experiments.wandb_file import read_offline

LAYOUT = Layout(rounds=9, planned_rounds=12)


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch, tmp_path):
    """W&B knows nothing of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "wandb-config"))
    yield
    wandb.teardown()


@pytest.fixture
def folder(tmp_path):
    folder = make_run(tmp_path / "run", LAYOUT)
    adapter = folder / "adapters" / "phase-002" / "policy"
    adapter.mkdir(parents=True)
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    return folder


def config_of(mode="offline"):
    exploration = {"islands": LAYOUT.islands, "samples": LAYOUT.samples}
    own = {"seed": 3, "tracking": mode, "exploration": exploration, "gate": {"max_kl": 0.4}}
    return load_config(None, own)


def track(folder, until=None, warn=pytest.fail, mode="offline", tell=lambda line: None):
    """Tell an observer what the loop would tell it of a stored run, up to a round, or to the end."""
    with RunStore(folder) as store:
        observer = WandbObserver(store, config_of(mode), warn, tell)
        observer.seeded(-0.2, 0, LAYOUT.rounds)
        for summary in store.round_summaries()[1:]:
            if until is not None and summary["round"] > until:
                break
            observer.round(summary, 0.0)
            for result in (p for p in store.phases() if p["round"] == summary["round"]):
                observer.phase(result)
        if until is None:
            observer.finished({})
            (folder / "report.html").write_text("the report")
            Image.new("RGB", (4, 4)).save(folder / "best_score.png")
            observer.attach([folder / "best_score.png", folder / "report.html"])
        observer.close()


def values(rows, key):
    return [row[key] for row in rows if key in row]


def test_an_offline_run_holds_a_row_per_round_phase_step_and_evaluation(folder):
    track(folder)
    (run,) = read_offline(folder)
    assert (run.config["gate"]["max_kl"], run.config["seed"]) == (0.4, 3)
    assert values([row for row in run.history if "explore/valid" in row], "round") == list(range(1, 10))
    assert values([row for row in run.history if "gate/promoted" in row], "phase") == [1, 2]
    assert values([row for row in run.history if "dpo/loss" in row], "optimiser_step") == [1, 2, 3, 4, 5, 6]
    for pattern, axis in ((key, axis) for key, axis in run.axes.items() if key.endswith("*")):
        own = [row for row in run.history for key in row if key.startswith(pattern.rstrip("*"))]
        assert own or pattern == "exam/*", pattern
        assert all(axis in row for row in own), pattern
    assert {run.axes[key] for key in ("score/*", "explore/*", "gate/*", "dpo/*")} == {
        "evaluations", "round", "phase", "optimiser_step"
    }  # fmt: skip
    rows = [row for row in run.history if "score/best" in row and "round" not in row]
    with RunStore(folder) as store:
        different = [c for c in store.candidates() if c.duplicate_of is None]
        best = store.best_candidates(1)[0]
        held_out = store.held_out(best.program_key)["scores"]
    assert values(rows, "evaluations") == list(range(len(different)))  # the start is none
    scores = [c.score for c in different if c.score is not None]
    assert values(rows, "score/candidate") == scores
    assert [row["score/best"] for row in rows if "score/candidate" in row] == list(accumulate(scores, max))
    assert run.summary["score/best"] == best.score
    assert run.summary["held_out_score"] == pytest.approx(fmean(held_out))


def test_the_end_shows_programs_with_their_diffs_the_report_and_the_figure(folder):
    track(folder)
    (run,) = read_offline(folder)
    shown = {key: media for row in run.history for key, media in row.items() if key.endswith("/_type")}
    assert shown == {
        "best_programs/_type": "table-file", "report/_type": "html-file", "figure/_type": "image-file"
    }  # fmt: skip
    assert values(run.history, "best_programs/nrows") == [10]
    (file,) = folder.glob("wandb/offline-run-*/files/media/table/best_programs*.json")
    table = json.loads(file.read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    with RunStore(folder) as store:
        start, best = store.start(), store.best_candidates(1)[0]
    assert rows[0]["program"] == best.program
    for row in rows:
        changed = row["changed_since_start"].splitlines()
        added = {line for line in row["program"].splitlines() if line not in start.program.splitlines()}
        assert added <= {line[1:] for line in changed if line.startswith("+")}
    assert run.artifacts["report"] == ["best_score.png", "config.yaml", "report.html"]
    assert run.artifacts["model"] == ["policy/adapter_model.safetensors"]


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
        plain = [row for row in rows if not any(key.endswith("/_type") for key in row)]
        return [{key: value for key, value in row.items() if not key.startswith("_")} for row in plain]

    assert told(history) == told(whole.history)


NAMES = {
    "WANDB_NAME": "mine", "WANDB_RUN_GROUP": "ours", "WANDB_TAGS": "a,b", "WANDB_PROJECT": "else", "WANDB_ENTITY": "us",
}  # fmt: skip


def test_the_environments_names_win(folder, monkeypatch):
    track(folder, until=1)
    for name, value in NAMES.items():
        monkeypatch.setenv(name, value)
    wandb.teardown()
    other = make_run(folder.parent / "other", LAYOUT)
    track(other, until=1)
    ours, theirs = ((own.name, own.group, own.tags, own.project, own.entity)
                    for place in (folder, other) for own in read_offline(place))  # fmt: skip
    assert ours == ("run", "ATLAS-Bandit-v0", ["atlas"], "atlas-gym", "")
    assert theirs == ("mine", "ours", ["a", "b"], "else", "us")


NETRC = f"machine api.wandb.ai\n  login user\n  password {'0' * 40}\n"


@pytest.mark.parametrize(
    ("netrc", "environment", "setting", "mode", "said"),
    [
        ("", {}, "auto", "offline", "not logged in"),
        (NETRC, {}, "auto", "online", "logged in"),
        ("", {"WANDB_API_KEY": "0" * 40}, "auto", "online", "logged in"),
        (NETRC, {"WANDB_MODE": "dryrun"}, "online", "offline", "told dryrun"),
        (NETRC, {"WANDB_MODE": "disabled"}, "online", "off", "told disabled"),
        (NETRC, {}, "offline", "offline", "tracking is offline"),
        (NETRC, {"WANDB_MODE": "online"}, "offline", "online", "WANDB_MODE is online"),
    ],
)
def test_who_is_logged_in_is_online_unless_told_otherwise(
    tmp_path, monkeypatch, netrc, environment, setting, mode, said
):
    (tmp_path / ".netrc").write_text(netrc)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    wandb.teardown()
    chosen, reason = choose(wandb, setting)
    assert chosen == mode
    assert said in reason


def test_a_missing_package_is_said_and_stops_nothing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    warnings = []
    track(folder, warn=warnings.append)  # asked for: offline
    assert warnings == ['W&B: off (it is not installed: `pip install "atlas-gym[wandb]"`).']
    track(folder, mode="auto")  # not asked for: said, and no warning
    assert not (folder / "wandb").exists()


@pytest.mark.parametrize("method", ["init", "log", "define_metric", "log_artifact", "finish"])
def test_whatever_fails_in_wandb_ends_the_tracking_and_not_the_run(folder, monkeypatch, method):
    def outage(*arguments, **keywords):
        raise ConnectionError("the server is away")

    monkeypatch.setattr(wandb if method == "init" else wandb.Run, method, outage)
    warnings = []
    track(folder, warn=warnings.append)
    assert warnings == ["W&B tracking ended (ConnectionError: the server is away); the run goes on."]
    monkeypatch.undo()
    wandb.finish()


def test_without_the_server_a_run_is_tracked_offline(folder, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    wandb.teardown()
    warnings, told = [], []
    track(folder, 1, warnings.append, "online", told.append)
    assert len(warnings) == 1
    assert "tracked offline" in warnings[0]
    assert told[0].startswith("W&B: offline (its server does not answer)")
    (run,) = read_offline(folder)
    assert values(run.history, "score/best")
