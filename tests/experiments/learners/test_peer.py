"""Learners in processes of their own: a stand-in that is quick to start, and, in the slow suite, the real ones."""

import json
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from atlas_gym.experiments.learners import peer as peers
from atlas_gym.experiments.learners.changes import Change
from atlas_gym.experiments.learners.ledger import Ledger, Trial
from atlas_gym.experiments.learners.peer import (
    Peer,
    environment,
    facts,
    fill,
    learn_peer,
    prepare,
    read_peer,
    run_peer,
)
from atlas_gym.experiments.learners.referee import referee

SMALL = {"horizon": 60, "replicas": 1}

ASKS = """
import json, sys, time, urllib.error, urllib.request

def post(path, body):
    with urllib.request.urlopen(urllib.request.Request("$url" + path, json.dumps(body).encode())) as reply:
        return json.load(reply)

try:
    while True:
        post("/v1/chat/completions", {"messages": []})
        print(post("/evaluate", {"program": "nonsense("}))
except urllib.error.HTTPError as refused:
    print(refused.code)
"""
PEERS = [read_peer(name) for name in ("openevolve", "shinka", "llm4ad")]


class FakeModel(BaseHTTPRequestHandler):
    """Answers as a model's server does."""

    thinks_s = 0.0

    def do_GET(self):
        self.answer({"data": [{"id": "a-model", "owned_by": "a-server"}]})

    def do_POST(self):
        time.sleep(self.thinks_s)
        self.answer({"choices": [], "usage": {"completion_tokens": 7, "prompt_tokens": 30}})

    def answer(self, said):
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def model_url():
    server = HTTPServer(("127.0.0.1", 0), FakeModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def stand_in(tmp_path: Path, end: str) -> Peer:
    why = {
        "deep.temperature": {"value": 0.5, "why": "because"},
        "plain": {"value": "same", "why": "is no change"},
    }
    defaults = "import json; print(json.dumps({'deep': {'temperature': 1.0}, 'plain': 'same', 'budget': 9}))"
    lock = tmp_path / "stand_in.txt"
    lock.write_text("")
    return Peer("Stand-in", "1", "", lock, why, {"budget": "$budget"}, defaults, "", ["-c", ASKS + end])


@pytest.mark.parametrize("end", ["", "time.sleep(1000)", "sys.exit(3)"])
def test_a_peer_is_counted_refused_and_stopped(tmp_path, model_url, monkeypatch, end):
    monkeypatch.setattr(peers, "environment", lambda peer, folder: Path(sys.executable))
    monkeypatch.setattr(peers, "_SETTLE_S", 0.5)
    trial = Trial("ATLAS-Bandit-v0", 0, 3, folder=tmp_path, constants=SMALL)
    with Ledger(trial) as ledger:
        run_peer(stand_in(tmp_path, end), trial, ledger, model_url)
    found = ledger.outcome()
    assert (found.candidates, found.evaluated, found.statuses) == (3, 3, {"invalid": 3})
    assert (found.tokens, found.prompt_tokens) == (21, 90)
    assert "403" in (tmp_path / "log.txt").read_text() or end == "time.sleep(1000)"


def test_a_peer_gets_the_last_answer_that_it_asked_for(tmp_path, model_url, monkeypatch):
    monkeypatch.setattr(peers, "environment", lambda peer, folder: Path(sys.executable))
    monkeypatch.setattr(peers, "_SETTLE_S", 0.2)
    monkeypatch.setattr(FakeModel, "thinks_s", 1.0)
    trial = Trial("ATLAS-Bandit-v0", 0, 2, folder=tmp_path, constants=SMALL)
    with Ledger(trial) as ledger:
        run_peer(stand_in(tmp_path, ""), trial, ledger, model_url)
    assert (ledger.outcome().candidates, ledger.outcome().evaluated) == (2, 2)


def test_a_peers_changes_are_read_off_its_configuration_and_its_own_defaults(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "environment", lambda peer, folder: Path(sys.executable))
    trial = Trial("ATLAS-Bandit-v0", 0, 3, folder=tmp_path, constants=SMALL)
    peer = stand_in(tmp_path, "")
    changes = peers.changes(peer, trial)
    assert changes.pop("(the model's server)").value == "llamacpp"
    assert changes == {"deep.temperature": Change(0.5, 1.0, "because")}


def test_a_peer_that_cannot_be_installed_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peer = stand_in(tmp_path, "")
    peer.lock.write_text("no-such-package==1\n")
    with pytest.raises(
        RuntimeError, match=r"Stand-in 1 cannot be installed .*package index; name other --learners"
    ):
        environment(peer, tmp_path)


def test_a_model_that_is_not_served_is_an_error_before_the_peer_starts(tmp_path):
    with pytest.raises(RuntimeError, match=r"no model is served at .*:9/v1/models .*--model-url"):
        learn_peer(stand_in(tmp_path, ""), Trial("ATLAS-Bandit-v0", 0, 3, model_url="http://127.0.0.1:9/v1"))


def test_a_peer_that_asks_for_nothing_is_an_error_that_names_its_log(tmp_path, model_url, monkeypatch):
    monkeypatch.setattr(peers, "environment", lambda peer, folder: Path(sys.executable))
    trial = Trial("ATLAS-Bandit-v0", 0, 3, folder=tmp_path, constants=SMALL)
    peer = replace(stand_in(tmp_path, ""), command=["-c", "raise SystemExit(3)"])
    with Ledger(trial) as ledger, pytest.raises(RuntimeError, match=r"ended with 3, .*log\.txt"):
        run_peer(peer, trial, ledger, model_url)


def test_the_referee_counts_only_what_the_model_answered():
    nobody = "http://127.0.0.1:9/v1"
    with Ledger(Trial("ATLAS-Bandit-v0", 0, 2, constants=SMALL)) as ledger, referee(ledger, nobody) as url:
        for path, body, status in (
            ("/secret", None, 404),
            ("/v1/models", None, 502),
            ("/v1/chat", b"{}", 502),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url + path, body)
            assert refused.value.code == status
        assert (ledger.candidates, ledger.tokens) == (0, 0)


def test_an_environment_is_made_once_and_again_when_its_lock_changes(tmp_path):
    peer = stand_in(tmp_path, "")
    python = environment(peer, tmp_path)
    assert python.exists()
    changed = python.stat().st_mtime_ns
    assert environment(peer, tmp_path) == python
    assert python.stat().st_mtime_ns == changed
    peer.lock.write_text("# another\n")
    assert environment(peer, tmp_path) != python


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_what_a_peer_is_given(peer, tmp_path):
    trial = Trial("ATLAS-Bandit-v0", 5, 3)
    known = facts(trial, "http://127.0.0.1:1", "a-model")
    prepare(peer, known, trial.start, tmp_path)
    assert not [word for word in fill(peer.command, known) if "$" in str(word)]
    texts = {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert texts["initial.py"].split("\n", 1)[1].startswith(trial.start.rstrip())
    compile(texts["evaluate.py"], "evaluate.py", "exec")
    assert "http://127.0.0.1:1/evaluate" in texts["evaluate.py"]
    assert "http://127.0.0.1:1/v1" in texts["config.yaml"]
    (pin,) = [
        line for line in peer.lock.read_text().splitlines() if peer.name.lower() in line.replace("-", "")
    ]
    assert pin.endswith(f"=={peer.version}")
    assert all("==" in line for line in peer.lock.read_text().splitlines())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_the_real_peer_with_the_real_model(peer, tmp_path):
    pytest.importorskip("xllamacpp", reason="needs the extra `leaderboard`")
    folder = tmp_path / "trial"
    folder.mkdir()
    small = {"items": 60, "count": 1}
    trial = Trial(
        "ATLAS-BinPacking-v0", 0, 3, folder=folder, environments=tmp_path / "peers", constants=small
    )
    found = learn_peer(peer, trial)
    assert found.candidates == 3
    assert found.tokens > 0
    assert found.evaluated <= 3
    assert found.score >= found.curve[0].best
    changes = peers.changes(peer, trial)
    assert changes.pop("(the model's server)").value == "llamacpp"
    assert changes.keys() <= peer.settings.keys()
    assert len(changes) >= 6
    assert all(change.value != change.default for change in changes.values())
