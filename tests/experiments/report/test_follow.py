"""The served report: on this machine only, up to date, and out of the run's way."""

import http.client
import json
import threading

import pytest

from atlas_gym.experiments.report.follow import LOOPBACK, LiveReport, LiveServer
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import Layout, call, make_run


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "run", Layout(rounds=3), finished=False)


@pytest.fixture
def port(folder):
    with LiveServer(LiveReport([folder], pictures=False), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def get(port, path, host=None, headers=()):
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    connection.request("GET", path, headers={"Host": host or f"localhost:{port}", **dict(headers)})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_page_and_its_data_are_served(port):
    answer, body = get(port, "/")
    assert answer.status == 200
    assert b"connect-src 'self'" in body
    answer, body = get(port, "/data.json")
    assert json.loads(body)["runs"][0]["rounds"] == 3
    assert get(port, "/../../etc/passwd")[0].status == 404


def test_only_requests_that_name_this_machine_are_answered(port):
    for host in ("example.org", f"example.org:{port}", "localhost"):
        answer, body = get(port, "/data.json", host=host)
        assert (answer.status, body) == (403, b"")


def test_the_server_listens_on_the_loopback_address_only(folder):
    with LiveServer(LiveReport([folder], pictures=False), 0) as server:
        assert server.server_address[0] == LOOPBACK


def test_news_come_while_the_run_holds_its_lock(folder, port):
    version = get(port, "/data.json")[0].headers["ETag"]
    assert get(port, "/data.json", headers={"If-None-Match": version}.items())[0].status == 304
    with RunStore(folder) as store:
        store.add_round(4, [], {"round": 4}, calls=[call("inspector", "fresh")])
        answer, body = get(port, "/data.json", headers={"If-None-Match": version}.items())
        assert answer.status == 200
        assert json.loads(body)["runs"][0]["supporters"][-1]["outcome"] == "fresh"
        store.set_meta("still", "writable")
