"""The served environment as a client meets it: the command in a process of its own, OpenEnv's own client."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

import atlas_gym

TOKEN = "a token of the test"
GOOD = atlas_gym.make_task("ATLAS-Bandit-v0").starts["named"]
HANGING = "def policy(context, history, t):\n    while True:\n        pass\n"
MAX_BYTES = 100_000


@pytest.fixture(scope="module")
def url():
    pytest.importorskip("openenv", reason="needs the extra `serve`")
    options = f"--port 0 --sessions 21 --max-bytes {MAX_BYTES} --turns 2 --set horizon=60 replicas=1"
    command = [sys.executable, "-m", "atlas_gym", "serve", "ATLAS-Bandit-v0", *options.split()]
    environment = {**os.environ, "ATLAS_GYM_TOKEN": TOKEN}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        said, _, port = process.stdout.readline().strip().rpartition(":")
        assert said == "serving ATLAS-Bandit-v0 on 127.0.0.1"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(30) is not None


def client(url, token=TOKEN):
    from openenv.core.generic_client import GenericEnvClient

    headers = {"Authorization": f"Bearer {token}"} if token else None
    return GenericEnvClient(base_url=url, headers=headers, connect_timeout_s=60, message_timeout_s=120).sync()


def test_a_session_within_this_process_plays_an_episode():
    pytest.importorskip("openenv", reason="needs the extra `serve`")
    from starlette.testclient import TestClient

    from atlas_gym.bridges.openenv import ServerSettings, build_app
    from atlas_gym.evaluation import EvaluatorPool

    def asked(kind, **data):
        session.send_json({"type": kind, "data": data} if data else {"type": kind})
        return session.receive_json()

    settings = ServerSettings("ATLAS-Bandit-v0", TOKEN, {"horizon": 60, "replicas": 1}, sessions=1)
    with EvaluatorPool(1) as pool:
        app = TestClient(build_app(settings, pool), headers={"Authorization": f"Bearer {TOKEN}"})
        with app, app.websocket_connect("/ws") as session:
            assert "policy" in asked("reset", seed=3)["data"]["observation"]["prompt"]
            assert "program" in str(asked("step", words=GOOD))
            step = asked("step", program=GOOD)["data"]
            assert (step["done"], step["observation"]["status"]) == (True, "ok")
            assert asked("state")["data"]["step_count"] == 1
            assert "reset first" in str(asked("step", program=GOOD))
        refused = app.post("/step", json={"action": {"program": "x"}})
        assert (refused.status_code, "open a session" in refused.text) == (409, True)
        assert app.post("/step", json={"action": {}}).text.endswith("program: Field required")


@pytest.mark.slow
def test_a_program_is_scored_as_in_the_environment(url):
    import gymnasium as gym

    with client(url) as session:
        first = session.reset(seed=3)
        assert "policy" in first.observation["prompt"]
        result = session.step({"program": GOOD})
    env = gym.make("ATLAS-Bandit-v0", turns=2, horizon=60, replicas=1)
    env.reset(seed=3)
    prompt, reward, terminated, _, info = env.step(GOOD)
    env.close()
    assert result.reward == reward
    assert result.done == terminated
    assert result.observation["prompt"] == prompt
    assert result.observation["status"] == info["status"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("token", ["wrong", None])
def test_sockets_and_requests_without_the_token_are_refused(url, token):
    with pytest.raises(Exception, match="403"), client(url, token) as session:
        session.reset()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for path in ("/health", "/docs", "/schema"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=60)


@pytest.mark.slow
def test_twenty_sessions_at_once_keep_their_own_episodes(url):
    together = threading.Barrier(20)

    def play(seed):
        with client(url) as session:
            session.reset(seed=seed)
            together.wait(120)
            return session.step({"program": GOOD}).reward, session.step({"program": GOOD}).observation[
                "task_seed"
            ]

    with ThreadPoolExecutor(20) as threads:
        results = list(threads.map(play, range(20)))
    assert [seed for _, seed in results] == list(range(20))
    assert len({reward for reward, _ in results}) == 20


@pytest.mark.slow
def test_a_program_that_hangs_does_not_block_the_others(url):
    ended = []
    with client(url) as slow, client(url) as quick, ThreadPoolExecutor(1) as thread:
        slow.reset(seed=0), quick.reset(seed=1)
        hanging = thread.submit(lambda: (slow.step({"program": HANGING}), ended.append("hanging"))[0])
        for seed in range(3):
            quick.reset(seed=seed)
            assert quick.step({"program": GOOD}).observation["status"] == "ok"
        ended.append("quick")
        assert hanging.result().observation["status"] == "timeout"
    assert ended == ["quick", "hanging"]


@pytest.mark.slow
def test_sessions_that_nobody_closed_end(monkeypatch):
    pytest.importorskip("openenv", reason="needs the extra `serve`")
    from starlette.testclient import TestClient

    from atlas_gym.bridges.guard import Guard
    from atlas_gym.bridges.openenv import ServerSettings, build_app
    from atlas_gym.evaluation import EvaluatorPool

    def opened():
        answer = requests.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"})
        return "result" in answer.json()

    monkeypatch.setattr(Guard, "idle_s", 0.1)
    with EvaluatorPool(1) as pool:
        app = build_app(ServerSettings("ATLAS-Bandit-v0", TOKEN, sessions=1), pool)
        with TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"}) as requests:
            with requests.websocket_connect("/ws") as session:
                assert session.receive()["reason"] == "nothing was asked for 0.1 s"
            assert opened()
            deadline = time.monotonic() + 60.0
            while not (free := opened()) and time.monotonic() < deadline:
                time.sleep(0.1)  # OpenEnv looks every 5 s and tells nobody
            assert free


@pytest.mark.slow
def test_clients_that_leave_give_up_their_places_and_what_they_waited_for(url, capfd):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    def opened():
        socket = connect(url.replace("http", "ws") + "/ws", additional_headers=headers, legacy=True)
        try:
            socket.send('{"type": "reset", "data": {"seed": 0}}')
            return socket, json.loads(socket.recv(60))["type"] != "error"
        except ConnectionClosed:  # no place is free, and it was closed before anything was asked
            return socket, False

    headers = {"Authorization": f"Bearer {TOKEN}"}
    for socket, _ in [opened() for _ in range(21)]:
        socket.send(json.dumps({"type": "step", "data": {"program": HANGING}}))
        socket.socket.close()
    began = time.monotonic()
    while not (last := opened())[1]:
        time.sleep(0.1)
    last[0].send(json.dumps({"type": "step", "data": {"program": GOOD}}))
    assert '"status":"ok"' in last[0].recv(120)
    assert time.monotonic() - began < 60  # programs that hang would take minutes
    assert "Traceback" not in capfd.readouterr().err
