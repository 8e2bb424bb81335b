"""Servers that are not there are told of when a run begins; an adapter to begin with is kept by the run."""

import shutil
import socket
import sys

import pytest
import torch

from atlas_gym.agents.engines.engine import EngineError
from atlas_gym.agents.engines.settings import Endpoint, EngineSettings, ServerSettings
from atlas_gym.agents.models.adapters import AdapterError
from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.agents.supporters.settings import RoleSettings, SupporterSettings
from atlas_gym.trainers.loop.atlas import AtlasRun
from atlas_gym.trainers.loop.beginning import BEGIN
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.resources import (
    greet_supporters,
    load_policy,
    make_policy,
    silent_servers,
)
from atlas_gym.trainers.store.store import RunStore
from tests.agents.completions_server import write
from tests.agents.supporters import server as s
from tests.tiny_model import save_tiny_model
from tests.trainers.whole_run import Watcher


@pytest.fixture
def nowhere():
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def with_inspector(base_url):
    return SupporterSettings(inspector=RoleSettings("llm", Endpoint(base_url, "judge")))


def test_a_supporter_that_cannot_be_reached_stops_the_run_and_is_named(nowhere):
    with pytest.raises(
        EngineError, match=r"supporters\.inspector: judge at .* --supporters\.inspector\.form off"
    ):
        greet_supporters(with_inspector(nowhere))


@pytest.mark.parametrize("status", ["401 Unauthorized", "500 Internal Server Error", "502 Bad Gateway"])
def test_a_supporter_that_refuses_stops_the_run(status):
    with s.serve(s.respond(b"{}", status)) as server, pytest.raises(EngineError, match=status[:3]):
        greet_supporters(with_inspector(server.base_url))


@pytest.mark.parametrize("answer", [s.say("yes"), s.respond(b"{}", "503 Busy")], ids=["answers", "busy"])
def test_one_that_answers_or_may_answer_later_does_not(answer):
    with s.serve(answer) as server:
        greet_supporters(with_inspector(server.base_url))
    assert len(server.requests) == 1


def test_a_server_that_is_waited_for_is_named(nowhere):
    def config(url):
        backend = EngineSettings("openai", server=ServerSettings(url, "writer", wait_s=60.0))
        return RunConfig(method="search", tuning=False, backend=backend)

    (said,) = silent_servers(config(nowhere))
    assert f"writer at {nowhere}" in said
    assert "60 s" in said
    with s.serve(write("x\n")) as server:
        assert list(silent_servers(config(server.base_url))) == []
    assert list(silent_servers(RunConfig())) == []
    with s.serve(s.respond(b"", "404 No")) as server, pytest.raises(EngineError, match="ends in /v1"):
        list(silent_servers(config(server.base_url)))


def test_a_run_keeps_the_engine_that_auto_was_when_it_began(folder, tmp_path, monkeypatch):
    config = RunConfig(device="cpu", model=str(folder), backend=EngineSettings("auto"), workers=1)

    def engine(store, *observers):
        with AtlasRun(config, store, observers) as run:
            return run.config.backend.name

    told = Watcher()
    told.stage = told.events.append
    with RunStore(tmp_path) as store:
        assert engine(store, told) == "transformers"
        assert told.events == ["backend.name: auto, which is transformers in this run"]
        monkeypatch.setattr("atlas_gym.trainers.loop.resources.engine_here", lambda device: "vllm")
        assert engine(store) == "transformers"
    monkeypatch.setitem(sys.modules, "vllm", None)
    with RunStore(tmp_path / "other") as store:
        store.set_meta("engine", "vllm")
        with pytest.raises(EngineError, match="make vllm"):
            engine(store)


def begun(model, run, **settings):
    with RunStore(run) as store:
        return make_policy(RunConfig(device="cpu", model=str(model), **settings), model, store)


def test_a_run_begins_with_the_adapter_of_another_and_keeps_it(folder, tmp_path):
    taught = begun(folder, tmp_path / "other")
    assert taught.digest(POLICY) == taught.digest(REFERENCE)
    assert not (tmp_path / "other" / BEGIN).exists()
    for tensor in taught.tensors(POLICY).values():
        tensor.data += 0.01
    taught.save(POLICY, tmp_path / "taught")
    for _ in range(2):  # begun and, where it came from is gone, resumed
        policy = begun(folder, tmp_path / "run", adapter=str(tmp_path / "taught"))
        assert policy.digest(POLICY) == policy.digest(REFERENCE) == taught.digest(POLICY)
        shutil.rmtree(tmp_path / "taught", ignore_errors=True)


def test_a_run_does_not_go_on_from_another_adapter_than_it_began_with(folder, tmp_path):
    other = begun(folder, tmp_path / "other")
    other.save(POLICY, tmp_path / "taught")
    begun(folder, tmp_path / "run", adapter=str(tmp_path / "taught"))
    shutil.rmtree(tmp_path / "run" / BEGIN)
    begun(folder, tmp_path / "run", adapter=str(tmp_path / "taught"))  # the same one: kept again
    shutil.rmtree(tmp_path / "run" / BEGIN)
    for tensor in other.tensors(POLICY).values():
        tensor.data += 0.01
    other.save(POLICY, tmp_path / "taught")
    with pytest.raises(AdapterError, match="is not the adapter that was saved there; put that one back"):
        begun(folder, tmp_path / "run", adapter=str(tmp_path / "taught"))


def test_an_adapter_that_is_not_there_is_told_of(folder, tmp_path):
    with pytest.raises(AdapterError, match="there is no adapter at"):
        begun(folder, tmp_path, adapter=str(tmp_path / "nowhere"))


def test_an_adapter_needs_the_models_weights():
    with pytest.raises(ValueError, match=r"leave adapter empty, or write with backend\.name: transformers"):
        RunConfig(
            adapter="somewhere",
            method="search",
            backend=EngineSettings("openai", server=ServerSettings(model="m")),
        )


@pytest.mark.parametrize(("said", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_the_model_computes_in_what_was_said(tmp_path, said, dtype):
    assert load_policy(RunConfig(dtype=said), save_tiny_model(tmp_path), "cpu").dtype is dtype
